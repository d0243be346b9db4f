// What a request turned out to cost: read when the request ends, and settled with what it was
// charged.
#pragma once

#include "limiter/applied_rules.hpp"
#include "limiter/request.hpp"
#include "limiter/worker.hpp"

namespace limiter {

/// Reads for each rule the largest of the final costs of it and of those that it made needless, if
/// its counter was charged for the request, or may still be.
void read_final_costs(Request &request, const AppliedRules &rules);

/// Settles what the rules of a request have charged with the final costs that were read: once for
/// each counter, over all that its rules have charged, by the largest of their final costs. So all
/// checks of the request must be answered. What was reserved of a lease goes back to it.
void settle(Worker &worker, const AppliedRules &rules);

} // namespace limiter
