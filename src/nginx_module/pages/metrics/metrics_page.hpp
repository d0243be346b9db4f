// The content handlers of `redis_rate_limit_metrics`.
#pragma once

#include "nginx_module/http/ngx.hpp"

namespace nginx_module {

ngx_int_t prometheus_handler(ngx_http_request_t *r) noexcept;
ngx_int_t json_handler(ngx_http_request_t *r) noexcept;

} // namespace nginx_module
