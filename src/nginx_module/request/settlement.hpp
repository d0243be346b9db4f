// What a request turned out to cost: read when the request ends, and settled with what it was
// charged.
#pragma once

#include "../ngx.hpp"

#include "applied_rule.hpp"

#include <span>

namespace nginx_module {

/// nginx calls this once for each request, when it ends.
ngx_int_t log_handler(ngx_http_request_t *r) noexcept;

/// Reads the final cost of the rules that have one.
void read_final_costs(ngx_http_request_t *r, std::span<AppliedRule> rules);

/// Settles the rule's charge with the final cost that was read, if there are both. What was
/// reserved of a lease goes back to it.
void settle(const AppliedRule &applied);

} // namespace nginx_module
