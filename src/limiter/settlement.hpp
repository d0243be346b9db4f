// What a request turned out to cost: read when the request ends, and settled with what it was
// charged.
#pragma once

#include "limiter/applied_rule.hpp"
#include "limiter/request.hpp"
#include "limiter/worker.hpp"

#include <span>

namespace limiter {

/// Reads the largest of the final costs of the rule and of those that it made needless.
void read_final_cost(Request &request, AppliedRule &applied);

/// Settles what the rules of a list have charged with the final costs that were read: once for each
/// counter, over all that its rules have charged, by the largest of their final costs. What was
/// reserved of a lease goes back to it.
void settle(Worker &worker, AppliedRule *list);

/// Settles the rules of a check that was abandoned: they are in no list, and each has a counter of
/// its own.
void settle_each(Worker &worker, std::span<AppliedRule> rules);

} // namespace limiter
