// What becomes of a rule's numbers where an operator has set others.

#include "rate_limit/tables/live_limits.hpp"
#include "unit/rate_limit/algorithms.hpp"

#include <gtest/gtest.h>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;

TEST(Overridden, ReplacesWhatIsGiven) {
    const Quota tokens{
        .algorithm = Algorithm::token_bucket, .window = 60s, .limit = 10, .burst = 20, .cost = 3};
    EXPECT_EQ(overridden(tokens, {}).capacity(), 20U);
    EXPECT_EQ(overridden(tokens, {.limit = 5}).limit, 5U);
    EXPECT_EQ(overridden(tokens, {.limit = 5}).burst, 20U);
    EXPECT_EQ(overridden(tokens, {.burst = 30}).limit, 10U);
    EXPECT_EQ(overridden(tokens, {.burst = 30}).burst, 30U);
    EXPECT_EQ(overridden(tokens, {.limit = 5, .burst = 30}).cost, 3U);
    EXPECT_EQ(overridden(tokens, {.limit = 0}).capacity(), 0U);
}

TEST(Overridden, GivesNoBurstToARuleThatTakesNone) {
    const Quota window{.algorithm = Algorithm::fixed_window, .window = 60s, .limit = 10};
    EXPECT_EQ(overridden(window, {.burst = 30}).burst, std::nullopt);
    EXPECT_EQ(overridden(window, {.limit = 5, .burst = 30}).capacity(), 5U);
}

TEST(Overridden, KeepsATokenBucketWithoutBurstAtItsLimit) {
    const Quota tokens{.algorithm = Algorithm::token_bucket, .window = longest_window, .limit = 10};
    EXPECT_EQ(overridden(tokens, {.limit = largest_number}).capacity(), largest_number);
    EXPECT_EQ(overridden(tokens, {.limit = 1}).capacity(), 1U);
}

// The rule can take what comes out, which grants no more than was asked for; and no more could be
// granted of it.
TEST(Overridden, ClampsWhatTheRuleCannotTake) {
    constexpr uint64_t numbers[] = {
        0, 1, 2, 3, 9, 10, 1'000, 1'000'000, 1'000'001, largest_number, 1ULL << 53, UINT64_MAX - 1};
    for (const Algorithm algorithm : all_algorithms) {
        for (const std::chrono::milliseconds window :
             {1ms, 1'000ms, 86'400'000ms, longest_window}) {
            for (const uint64_t limit : numbers) {
                for (const uint64_t burst : numbers) {
                    const Quota rule{.algorithm = algorithm, .window = window, .limit = 3};
                    const Quota quota = overridden(rule, {.limit = limit, .burst = burst});
                    EXPECT_EQ(quota.limit, std::min(limit, largest_limit(algorithm)));
                    EXPECT_LE(quota.refill(), longest_refill);
                    if (!is_bucket(algorithm)) {
                        continue;
                    }
                    EXPECT_LE(quota.burst, std::min(burst, largest_number));
                    if (quota.burst < std::min(burst, largest_number)) {
                        Quota more = quota;
                        more.set_capacity(quota.capacity() + 1);
                        EXPECT_GT(more.refill(), longest_refill);
                    }
                }
            }
        }
    }
}

// A variable gives this host a burst that the one which took the override does not know.
TEST(Overridden, ClampsWhatTheOverrideDoesNotSay) {
    const Quota rule{
        .algorithm = Algorithm::token_bucket, .window = 24h, .limit = 1'000, .burst = 5'000};
    EXPECT_EQ(overridden(rule, {.limit = 1}).burst, 3'653U);
    const Quota slow{.algorithm = Algorithm::gcra, .window = 24h, .limit = 1, .burst = 5};
    EXPECT_EQ(overridden(slow, {.burst = 5'000}).burst, 3'652U);
}

} // namespace
} // namespace rate_limit
