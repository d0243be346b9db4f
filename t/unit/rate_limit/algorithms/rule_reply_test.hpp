// Quotas for tests of verdicts, and the verdicts of replies.
#pragma once

#include "rate_limit/algorithms/rule_reply.hpp"
#include "rate_limit/rule/verdict.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace rate_limit {

using namespace std::chrono_literals;

using Numbers = std::vector<int64_t>;

inline constexpr int64_t largest = int64_t{1} << 53; // Lua has no larger whole numbers

inline constexpr Algorithm buckets[] = {Algorithm::token_bucket, Algorithm::gcra,
                                        Algorithm::leaky_bucket};

inline Quota limit_of(uint64_t limit) {
    return {.window = 60s, .limit = limit};
}

/// A rule of 100 in 60 seconds.
inline Quota quota_of(Algorithm algorithm, uint64_t cost = 1) {
    return {.algorithm = algorithm, .window = 60s, .limit = 100, .cost = cost};
}

/// A bucket that gets a unit back each second, and grants five at once.
inline Quota bucket_of(Algorithm algorithm, uint64_t cost = 1) {
    const uint64_t burst = algorithm == Algorithm::token_bucket ? 5 : 4;
    return {.algorithm = algorithm, .window = 10s, .limit = 10, .burst = burst, .cost = cost};
}

inline std::optional<Verdict> charged(const Quota &quota, const Numbers &reply) {
    return verdict_of_reply(quota, reply, true);
}

inline std::optional<Verdict> uncharged(const Quota &quota, const Numbers &reply) {
    return verdict_of_reply(quota, reply, false);
}

} // namespace rate_limit
