// Decides rules on this host alone, by the shared memory of their zones, while Redis gives no
// verdict.
#pragma once

#include "limiter/applied_rule.hpp"
#include "limiter/worker.hpp"
#include "rate_limit/algorithms/local.hpp"

#include <chrono>
#include <span>

namespace limiter {

/// Gives verdicts to the rules that have none, if their zones say on_error=local. None of them is
/// charged if one of them, or another one of `rules`, denies.
void decide_on_this_host(Worker &worker, std::span<AppliedRule> rules);

/// Remembers the verdicts of Redis on rules with on_error=local, so that an outage gives nobody a
/// fresh quota. `asked` is when the checks were asked, as a time of precise_now().
void remember_verdicts(std::span<AppliedRule> rules, std::chrono::microseconds asked);

/// Settles what a request turned out to cost that this host has charged alone.
void settle_on_this_host(Worker &worker, const AppliedRule &applied,
                         const rate_limit::LocalSettlement &settlement);

/// Gives back the permits of a rule that this host has counted for a request that ends.
void release_permits_of_this_host(Worker &worker, const AppliedRule &applied);

} // namespace limiter
