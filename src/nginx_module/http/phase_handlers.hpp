// The phases of a request in which its rules are applied, and the one in which it ends.
#pragma once

#include "nginx_module/http/ngx.hpp"

namespace nginx_module {

ngx_int_t access_handler(ngx_http_request_t *r) noexcept;
ngx_int_t precontent_handler(ngx_http_request_t *r) noexcept;
/// Settles what a request turned out to cost. nginx calls this once for each request, when it ends.
/// It is registered only if some rule has a final cost: without one there is nothing to settle.
ngx_int_t log_handler(ngx_http_request_t *r) noexcept;

} // namespace nginx_module
