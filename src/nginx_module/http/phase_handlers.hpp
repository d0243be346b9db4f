// The road of a request through its rules, in the phases where they are applied.
#pragma once

#include "nginx_module/ngx.hpp"

namespace nginx_module {

ngx_int_t access_handler(ngx_http_request_t *r) noexcept;
ngx_int_t precontent_handler(ngx_http_request_t *r) noexcept;

} // namespace nginx_module
