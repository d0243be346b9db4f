// The content handler of `redis_rate_limit_api`: finds what a request asks for, and whether it may.
#pragma once

#include "nginx_module/http/ngx.hpp"

namespace nginx_module {

/// Makes what answers need when the configuration is read, so that no worker has to do it, which
/// may be short of memory.
void prepare_api();

ngx_int_t api_handler(ngx_http_request_t *r) noexcept;

} // namespace nginx_module
