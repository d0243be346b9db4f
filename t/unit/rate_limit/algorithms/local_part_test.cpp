// scaled() gives a host its part of the numbers of a rule.

#include "rate_limit/algorithms/local.hpp"

#include "unit/rate_limit/algorithms.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace rate_limit {
namespace {

TEST(LocalPart, IsRoundedDownButLeavesOne) {
    for (const Algorithm algorithm : all_algorithms) {
        const auto limit = [&](uint64_t whole, uint64_t percent) {
            return scaled({.algorithm = algorithm, .limit = whole}, percent).limit;
        };
        EXPECT_EQ(limit(100, 100), 100u);
        EXPECT_EQ(limit(199, 50), 99u);
        EXPECT_EQ(limit(10, 1), 1u);
        EXPECT_EQ(limit(0, 50), 0u);
        EXPECT_EQ(limit(largest_number, 99), largest_number / 100 * 99);
    }
}

TEST(LocalPart, OfABucketIsOfItsCapacity) {
    for (const Algorithm algorithm : all_algorithms) {
        for (const uint64_t burst : {0, 1, 3, 4, 9, 199}) {
            for (const uint64_t percent : {1, 10, 50, 99, 100}) {
                const Quota whole{.algorithm = algorithm, .limit = 10, .burst = burst};
                const uint64_t capacity = whole.capacity();
                EXPECT_EQ(scaled(whole, percent).capacity(),
                          capacity == 0 ? 0 : std::max<uint64_t>(capacity * percent / 100, 1));
            }
        }
    }
    const Quota tokens{.algorithm = Algorithm::token_bucket, .limit = 10};
    EXPECT_EQ(scaled(tokens, 50).capacity(), 5u);
    const Quota gcra{.algorithm = Algorithm::gcra, .limit = 10};
    EXPECT_EQ(scaled(gcra, 50).capacity(), 1u);
}

// Otherwise the request would be denied as long as the outage lasts.
TEST(LocalPart, HasRoomForACostThatTheWholeCouldGrant) {
    for (const Algorithm algorithm : all_algorithms) {
        const Quota whole{.algorithm = algorithm, .limit = 100, .burst = 99, .cost = 20};
        EXPECT_EQ(scaled(whole, 10).capacity(), 20u);
        Quota costly = whole;
        costly.cost = 1000;
        EXPECT_EQ(scaled(costly, 10).capacity(), whole.capacity());
    }
}

TEST(LocalPart, LeavesABurstUndelayedThatWas) {
    const Quota half_delayed{
        .algorithm = Algorithm::leaky_bucket, .limit = 10, .burst = 9, .delay = 4};
    EXPECT_EQ(scaled(half_delayed, 50).delay, 2u);
    for (uint64_t burst = 0; burst < 50; ++burst) {
        for (uint64_t percent = 1; percent <= 100; ++percent) {
            const Quota part = scaled(
                {.algorithm = Algorithm::leaky_bucket, .limit = 10, .burst = burst, .delay = burst},
                percent);
            EXPECT_GE(part.delay, *part.burst) << burst << ", " << percent;
        }
    }
}

// A rule may not take longer than longest_refill. With a part of its limit alone, a bucket would.
TEST(LocalPart, FillsABucketInTheLongestTimeThereIs) {
    for (const Algorithm algorithm :
         {Algorithm::token_bucket, Algorithm::gcra, Algorithm::leaky_bucket}) {
        for (const uint64_t burst : {899, 900}) {
            const Quota whole{.algorithm = algorithm,
                              .window = longest_window,
                              .limit = 100,
                              .burst = burst,
                              .cost = 899};
            ASSERT_LE(whole.refill(), longest_refill);
            for (const uint64_t percent : {1, 2, 50, 89, 90, 99, 100}) {
                const Quota part = scaled(whole, percent);
                EXPECT_LE(part.refill(), longest_refill) << to_string(algorithm) << percent;
                EXPECT_GE(part.limit, percent);
                EXPECT_LE(part.limit, whole.limit);
                EXPECT_GE(part.capacity(), whole.cost);
                const LocalDecision first = decide_locally(std::nullopt, part, false, {});
                EXPECT_EQ(first.verdict.decision, Decision::granted);
                ASSERT_TRUE(first.after);
                EXPECT_EQ(decide_locally(first.after, part, false, {}).verdict.decision,
                          Decision::denied);
            }
        }
    }
}

// If the numbers of a rule are impossible, nobody is let through.
TEST(LocalPart, IsNeverGrantedWithoutAVerdict) {
    const Quota impossible{.algorithm = Algorithm::token_bucket,
                           .window = longest_window,
                           .limit = 1,
                           .burst = 900,
                           .cost = 900};
    const LocalDecision decision = decide_locally(std::nullopt, impossible, false, {});
    EXPECT_EQ(decision.verdict, Verdict{.decision = Decision::never});
    EXPECT_FALSE(decision.after);
}

} // namespace
} // namespace rate_limit
