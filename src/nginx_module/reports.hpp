// The log lines about requests: "Log lines" in docs/responses.md.
#pragma once

#include "ngx.hpp"

#include "question.hpp"

namespace nginx_module {

/// `limiting requests, rule "per_ip/60s", key "203.0.113.7", retry after 1.250s`
void log_rejection(ngx_http_request_t *r, const Applied &denying);

/// `delaying request, rule "per_ip/60s", key "203.0.113.7", by 0.250s`, one level lower.
void log_delay(ngx_http_request_t *r, const Applied &delaying);

/// Names rules and their keys as far as `out` has room, and returns that part of it:
/// `, rule "per_ip/60s", key "203.0.113.7"` for each.
std::string_view describe_rules(std::span<const Applied> rules, std::span<char> out);

} // namespace nginx_module
