#include "rate_limit/algorithms/rule_reply.hpp"

#include "rate_limit/algorithms/algorithm_family.hpp"

#include <algorithm>

namespace rate_limit {

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

int64_t receipt_of_reply(const Quota &quota, RuleReply reply, int64_t now) {
    return traits_of(quota.algorithm).family.receipt_of_reply(quota, reply, now);
}

} // namespace rate_limit
