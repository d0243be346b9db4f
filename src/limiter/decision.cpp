#include "limiter/decision.hpp"

namespace limiter {

RequestDecision decide(std::span<const AppliedRule> rules) {
    RequestDecision decision;
    for (const AppliedRule &rule : rules) {
        if (rule.dry_run) {
            continue;
        }
        if (rule.denies()) {
            if (decision.denying == nullptr || rule.is_tighter(*decision.denying)) {
                decision.denying = &rule;
            }
        } else if (rule.rejects()) {
            decision.is_closed = true;
        } else if (rule.delay().count() > 0) {
            if (decision.delaying == nullptr || rule.delay() > decision.delaying->delay()) {
                decision.delaying = &rule;
            }
        }
    }
    return decision;
}

} // namespace limiter
