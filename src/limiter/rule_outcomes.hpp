// Counts what rules did to requests, for the metrics.
#pragma once

#include "limiter/applied_rule.hpp"

#include <span>

namespace limiter {

/// Counts the units of a lease that the request has used. If it is settled when it ends, that is
/// known only then.
void count_used_units(const AppliedRule &applied);

/// Counts one outcome for each rule. The rules apply together: they are those of a request's phase.
void count_outcomes(std::span<const AppliedRule> rules);

/// Counts the request among the keys that are rejected most, once for each zone of which a rule
/// denies it. Where a rule of the list `others` has denied it, too, that was counted with that one.
void count_rejection(std::span<const AppliedRule> rules, const AppliedRule *others = nullptr);

} // namespace limiter
