// The log lines about requests; see "Log lines" in docs/responses.md.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/http/applied_rule.hpp"

#include <span>
#include <string_view>

namespace nginx_module {

/// Logs `limiting requests, rule "per_ip/60s", key "203.0.113.7", retry after 1.250s`, or `banned`
/// instead of the time.
void log_rejection(ngx_http_request_t *r, const AppliedRule &denying);

/// Logs `delaying request, rule "per_ip/60s", key "203.0.113.7", by 0.250s`, one level lower.
void log_delay(ngx_http_request_t *r, const AppliedRule &delaying);

/// Logs what a dry run would have done to the request: one of the lines above, or nothing.
void log_dry_run(ngx_http_request_t *r, const AppliedRule &rule);

/// Logs an invalid number, at most once a second in a worker, because clients may choose the values
/// of variables.
void log_invalid(ngx_http_request_t *r, const RuleConf &rule, const char *parameter,
                 std::string_view value, uint64_t largest);

/// Writes `, rule "per_ip/60s", key "203.0.113.7"` for each rule to `out`, as far as there is room,
/// and returns that part of it.
std::string_view describe_rules(std::span<const AppliedRule> rules, std::span<char> out);

} // namespace nginx_module
