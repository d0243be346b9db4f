// The log lines about requests: "Log lines" in docs/responses.md.
#pragma once

#include "../ngx.hpp"

#include "applied_rule.hpp"

#include <span>
#include <string_view>

namespace nginx_module {

/// `limiting requests, rule "per_ip/60s", key "203.0.113.7", retry after 1.250s`
void log_rejection(ngx_http_request_t *r, const AppliedRule &denying);

/// `delaying request, rule "per_ip/60s", key "203.0.113.7", by 0.250s`, one level lower.
void log_delay(ngx_http_request_t *r, const AppliedRule &delaying);

/// What a dry run would have done to the request: either of the two, or nothing.
void log_dry_run(ngx_http_request_t *r, const AppliedRule &rule);

/// Names rules and their keys as far as `out` has room, and returns that part of it:
/// `, rule "per_ip/60s", key "203.0.113.7"` for each.
std::string_view describe_rules(std::span<const AppliedRule> rules, std::span<char> out);

} // namespace nginx_module
