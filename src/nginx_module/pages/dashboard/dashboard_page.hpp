// The content handler of `redis_rate_limit_dashboard`.
#pragma once

#include "nginx_module/http/ngx.hpp"

namespace nginx_module {

/// Puts the page together when the configuration is read, so that no worker has to do it, which may
/// be short of memory.
void prepare_dashboard();

ngx_int_t dashboard_handler(ngx_http_request_t *r) noexcept;

} // namespace nginx_module
