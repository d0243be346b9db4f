#include "rate_limit/rule/verdict.hpp"

#include <algorithm>

namespace rate_limit {

bool is_granted(RuleReply reply) {
    return reply[0] >= 0;
}

Verdict verdict_after_refund(const Quota &quota, Verdict verdict) {
    verdict.remaining = std::min(verdict.remaining + units_to_charge(quota), quota.capacity());
    if (verdict.remaining == quota.capacity()) {
        verdict.next_unit = verdict.reset = std::chrono::microseconds{0};
    }
    return verdict;
}

Verdict verdict_of_blocked(const Quota &quota, const Verdict &of_counter,
                           std::chrono::microseconds blocked_for) {
    Verdict verdict{.decision = decision_of(quota, false),
                    .reset = std::max(of_counter.reset, blocked_for)};
    if (verdict.decision == Decision::denied) {
        verdict.retry_after = std::max(of_counter.retry_after, blocked_for);
    }
    if (!holds_permits(quota.algorithm)) { // nobody knows when units come back
        verdict.next_unit =
            of_counter.remaining > 0 ? blocked_for : std::max(of_counter.next_unit, blocked_for);
    }
    return verdict;
}

std::optional<Verdict> verdict_without_counter(const Quota &quota) {
    if (quota.capacity() > 0) {
        return std::nullopt;
    }
    return Verdict{.decision = Decision::never};
}

uint64_t used_percent(uint64_t capacity, uint64_t remaining) {
    return (capacity - std::min(remaining, capacity)) * 100 / capacity;
}

bool is_tighter(const Quota &quota, const Verdict &verdict, const Quota &other_quota,
                const Verdict &other_verdict) {
    const bool denies = verdict.decision != Decision::granted;
    const bool other_denies = other_verdict.decision != Decision::granted;
    if (denies != other_denies) {
        return denies;
    }
    if (denies) {
        const bool never = verdict.decision == Decision::never;
        const bool other_never = other_verdict.decision == Decision::never;
        return never != other_never ? never : verdict.retry_after > other_verdict.retry_after;
    }
    // The two fractions are compared as products, which stay below 2 * 10^18.
    return verdict.remaining * other_quota.capacity() < other_verdict.remaining * quota.capacity();
}

} // namespace rate_limit
