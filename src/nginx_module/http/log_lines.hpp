// The log lines about requests; see "Log lines" in docs/responses.md.
#pragma once

#include "nginx_module/ngx.hpp"

#include "limiter/request.hpp"

namespace nginx_module {

/// Logs `limiting requests, rule "per_ip/60s", key "203.0.113.7", retry after 1.250s`, or `banned`
/// instead of the time.
void log_rejection(ngx_http_request_t *r, const limiter::AppliedRule &denying);

/// Logs `delaying request, rule "per_ip/60s", key "203.0.113.7", by 0.250s`, one level lower.
void log_delay(ngx_http_request_t *r, const limiter::AppliedRule &delaying);

/// Logs what a dry run would have done to the request: one of the lines above, or nothing.
void log_dry_run(ngx_http_request_t *r, const limiter::AppliedRule &rule);

/// Logs an invalid number, at most once a second in a worker, because clients may choose the values
/// of variables.
void log_invalid(ngx_http_request_t *r, const limiter::InvalidNumber &invalid);

/// Says that a response has something else where a number was expected, at most once a second.
void log_ignored_value(ngx_http_request_t *r, std::string_view path);

/// Warns of a response that cannot be read because it is encoded, at most once a minute.
void log_encoded_response(ngx_http_request_t *r, std::string_view encoding);

} // namespace nginx_module
