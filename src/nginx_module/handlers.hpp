// The phases' handlers: where a request meets its rules.
#pragma once

#include "ngx.hpp"

namespace nginx_module {

ngx_int_t access_handler(ngx_http_request_t *r) noexcept;
ngx_int_t precontent_handler(ngx_http_request_t *r) noexcept;

} // namespace nginx_module
