// What a request turned out to cost: read when the request ends, and settled with what it was
// charged.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/http/applied_rule.hpp"

#include <span>

namespace nginx_module {

/// nginx calls this once for each request, when it ends.
ngx_int_t log_handler(ngx_http_request_t *r) noexcept;

/// Reads the largest of the final costs of the rule and of those that it made needless.
void read_final_cost(ngx_http_request_t *r, AppliedRule &applied);

/// Settles what the rules of a list have charged with the final costs that were read: once for each
/// counter, over all that its rules have charged, by the largest of their final costs. What was
/// reserved of a lease goes back to it.
void settle(AppliedRule *list);

/// Settles the rules of a check that was abandoned: they are in no list, and each has a counter of
/// its own.
void settle_each(std::span<AppliedRule> rules);

} // namespace nginx_module
