#include "decision.hpp"

namespace nginx_module {

RequestDecision decide(std::span<const AppliedRule> rules) {
    RequestDecision decision;
    for (const AppliedRule &rule : rules) {
        if (rule.dry_run) {
            continue;
        }
        const rate_limit::Verdict *verdict = rule.verdict();
        if (verdict == nullptr) {
            decision.is_closed = decision.is_closed || rule.rejects();
        } else if (rule.denies()) {
            if (decision.denying == nullptr || rule.is_tighter(*decision.denying)) {
                decision.denying = &rule;
            }
        } else if (verdict->delay.count() > 0) {
            if (decision.delaying == nullptr ||
                verdict->delay > decision.delaying->charge->verdict.delay) {
                decision.delaying = &rule;
            }
        }
    }
    return decision;
}

} // namespace nginx_module
