// The log lines about requests and sessions; see "Log lines" in docs/responses.md.
#pragma once

#include "nginx_module/ngx.hpp"

#include "limiter/request.hpp"

namespace nginx_module {

/// Logs `limiting requests, rule "per_ip/60s", key "203.0.113.7", retry after 1.250s`, or `banned`
/// instead of the time.
void log_rejection(ngx_log_t &log, ngx_uint_t level, const limiter::AppliedRule &denying);

/// Logs `delaying request, rule "per_ip/60s", key "203.0.113.7", by 0.250s`, one level lower than
/// `level`.
void log_delay(ngx_log_t &log, ngx_uint_t level, const limiter::AppliedRule &delaying);

/// Logs what a dry run would have done to the request: one of the lines above, or nothing.
void log_dry_run(ngx_log_t &log, ngx_uint_t level, const limiter::AppliedRule &rule);

/// Logs an invalid number, at most once a second in a worker, because clients may choose the values
/// of variables.
void log_invalid(ngx_log_t &log, const limiter::InvalidNumber &invalid);

/// Logs where a request is on its road, for debugging. The number is that of the event.
void log_event(ngx_log_t &log, ngx_uint_t debug_level, limiter::RequestEvent event, int64_t number);

} // namespace nginx_module
