#include "verdict.hpp"

#include <algorithm>

namespace rate_limit {

std::optional<Verdict> verdict_of_reply(const Rule &rule, std::span<const int64_t> reply) {
    if (reply.size() != 4 || std::ranges::any_of(reply, [](int64_t n) { return n < 0; })) {
        return std::nullopt;
    }
    Verdict verdict;
    verdict.decision = reply[0] == 0 ? Decision::granted : Decision::denied;
    verdict.retry_after = std::chrono::microseconds(reply[0]);
    verdict.remaining = static_cast<uint64_t>(reply[1]);
    verdict.next_unit = std::chrono::microseconds(reply[2]);
    verdict.reset = std::chrono::microseconds(reply[3]);
    if (verdict.remaining > rule.capacity()) {
        return std::nullopt;
    }
    return verdict;
}

std::optional<Verdict> verdict_without_counter(const Rule &rule) {
    if (rule.limit > 0) {
        return std::nullopt;
    }
    return Verdict{.decision = Decision::never};
}

bool is_tighter(const Rule &rule, const Verdict &verdict, const Rule &other_rule,
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
    // Compared crosswise, as whole numbers: both stay below 10^18.
    return verdict.remaining * other_rule.capacity() < other_verdict.remaining * rule.capacity();
}

} // namespace rate_limit
