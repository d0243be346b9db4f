#include "rate_limit/algorithms/algorithm_helpers.hpp"

#include "rate_limit/algorithms/rule_reply.hpp"

namespace rate_limit {

LocalDecision decision_of_reply(const Quota &quota, RuleReply reply, std::chrono::microseconds now,
                                const Values &values) {
    const bool granted = is_granted(reply);
    const auto verdict = verdict_of_reply(quota, reply, granted);
    if (!verdict) { // no rule and no record should lead to such numbers: such a request is denied
        return {.verdict = {.decision = Decision::never}, .after = std::nullopt};
    }
    LocalDecision decision{.verdict = *verdict, .after = std::nullopt};
    if (granted && quota.charges()) {
        decision.after = {.time = now, .holds_for = decision.verdict.reset, .values = values};
        decision.receipt = receipt_of_reply(quota, reply, now.count());
    }
    return decision;
}

} // namespace rate_limit
