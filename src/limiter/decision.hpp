// How the verdicts of several rules become what happens to the request.
#pragma once

#include "limiter/applied_rule.hpp"

#include <span>

namespace limiter {

/// The decision of rules that apply together: those of one phase. Dry runs have no part in it.
struct RequestDecision {
    const AppliedRule *denying = nullptr;  // the tightest rule that denies
    bool is_closed = false;                // a rule without a verdict rejects, by its `on_error`
    const AppliedRule *delaying = nullptr; // the rule with the longest delay

    bool rejects() const { return denying != nullptr || is_closed; }
};

RequestDecision decide(std::span<const AppliedRule> rules);

} // namespace limiter
