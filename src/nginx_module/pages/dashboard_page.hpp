// The content handler of `redis_rate_limit_dashboard`.
#pragma once

#include "../ngx.hpp"

namespace nginx_module {

/// Puts the page together, so that no worker has to that may be short of memory.
void prepare_dashboard();

ngx_int_t dashboard_handler(ngx_http_request_t *r) noexcept;

} // namespace nginx_module
