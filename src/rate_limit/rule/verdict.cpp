#include "rate_limit/rule/verdict.hpp"

#include "rate_limit/algorithms/algorithm_helpers.hpp"
#include "rate_limit/rule/counter_charges.hpp"

#include <algorithm>

namespace rate_limit {

bool is_granted(RuleReply reply) {
    return reply[0] >= 0;
}

std::optional<Verdict> verdict_of_reply(const Quota &quota, RuleReply reply, bool charged) {
    constexpr int64_t largest = int64_t{1} << 53; // Lua has no larger whole numbers
    const auto out_of_range = [](int64_t number) { return number > largest || number < -largest; };
    if (reply.size() != reply_length(quota.algorithm) || std::ranges::any_of(reply, out_of_range)) {
        return std::nullopt;
    }
    if (is_granted(reply) && quota.cost > quota.capacity()) {
        return std::nullopt;
    }
    auto verdict = traits_of(quota.algorithm).family.verdict_of_reply(quota, reply, charged);
    if (verdict && verdict->decision != Decision::denied) {
        verdict->retry_after = std::chrono::microseconds{0};
    }
    return verdict;
}

std::optional<Verdict> verdict_after_lease(const Quota &quota, RuleReply reply, RuleReply lease) {
    std::array<int64_t, longest_reply> numbers{};
    const std::span after = std::span(numbers).first(reply.size());
    std::ranges::copy(reply, after.begin());
    traits_of(quota.algorithm).family.add_lease(quota, after, lease);
    return is_granted(after) ? verdict_of_reply(quota, after, true) : std::nullopt;
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
    if (quota.algorithm != Algorithm::concurrency) { // nobody knows when units come back
        verdict.next_unit =
            of_counter.remaining > 0 ? blocked_for : std::max(of_counter.next_unit, blocked_for);
    }
    return verdict;
}

int64_t receipt_of_reply(const Quota &quota, RuleReply reply, int64_t now) {
    return traits_of(quota.algorithm).family.receipt_of_reply(quota, reply, now);
}

std::optional<Verdict> verdict_without_counter(const Quota &quota) {
    if (quota.capacity() > 0) {
        return std::nullopt;
    }
    return Verdict{.decision = Decision::never};
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
