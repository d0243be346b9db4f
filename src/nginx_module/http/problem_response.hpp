// The problem details of RFC 9457, which are the body of rejections where
// `redis_rate_limit_problem` is on.
#pragma once

#include "nginx_module/http/ngx.hpp"

#include "limiter/applied_rules.hpp"

namespace nginx_module {

/// Whether a rejection with this status has problem details as its body: the location asks for
/// them, and nginx would send a short page of its own.
bool is_answered_by_problem(ngx_http_request_t *r, ngx_uint_t status);

/// Sends the response to a request that some of the rules deny, and names these. Returns what a
/// content handler returns.
ngx_int_t send_problem(ngx_http_request_t *r, ngx_uint_t status,
                       const limiter::AppliedRules &rules);

} // namespace nginx_module
