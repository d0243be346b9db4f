// The content handler of `redis_rate_limit_dashboard`.
#pragma once

#include "ngx.hpp"

namespace nginx_module {

ngx_int_t dashboard_handler(ngx_http_request_t *r) noexcept;

} // namespace nginx_module
