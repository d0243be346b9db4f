#include "rate_limit/rule/verdict.hpp"

#include "unit/rate_limit/algorithms.hpp"
#include "unit/rate_limit/algorithms/rule_reply_test.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace rate_limit {
namespace {

TEST(Verdict, NeedsNoCounterWithoutCapacity) {
    for (const Algorithm algorithm : all_algorithms) {
        Quota quota = quota_of(algorithm);
        EXPECT_EQ(verdict_without_counter(quota), std::nullopt);
        quota.limit = 0;
        quota.burst = 7;
        EXPECT_EQ(verdict_without_counter(quota), Verdict{.decision = Decision::never});
    }
    Quota quota{.algorithm = Algorithm::token_bucket, .window = 1s, .limit = 1, .burst = 0};
    EXPECT_EQ(verdict_without_counter(quota), Verdict{.decision = Decision::never});
}

// The tighter of two

struct Ruling {
    uint64_t limit;
    Verdict verdict;
};

// Each is tighter than all that follow.
const std::vector<Ruling> tightest_first = {
    {0, {.decision = Decision::never}},
    {1, {.decision = Decision::denied, .retry_after = 2s}},
    {1'000'000, {.decision = Decision::denied, .remaining = 999'999, .retry_after = 1s}},
    {10, {.decision = Decision::denied, .retry_after = 1us}},
    {1'000'000, {.remaining = 0}},
    {1'000'000, {.remaining = 1}},
    {1000, {.remaining = 333}},
    {3, {.remaining = 1}},
    {1000, {.remaining = 334}},
    {1'000'000, {.remaining = 999'999}},
    {1, {.remaining = 1}},
};

TEST(Verdict, IsTighterWithALongerWaitOrALesserShare) {
    for (size_t i = 0; i < tightest_first.size(); ++i) {
        for (size_t j = 0; j < tightest_first.size(); ++j) {
            const auto &[limit, verdict] = tightest_first[i];
            const auto &[other_limit, other] = tightest_first[j];
            EXPECT_EQ(is_tighter(limit_of(limit), verdict, limit_of(other_limit), other), i < j)
                << i << " and " << j;
        }
    }
}

TEST(Verdict, TellsWhatIsTakenInWholePerCent) {
    EXPECT_EQ(used_percent(3, 3), 0U);
    EXPECT_EQ(used_percent(3, 2), 33U);
    EXPECT_EQ(used_percent(3, 1), 66U);
    EXPECT_EQ(used_percent(3, 0), 100U);
    EXPECT_EQ(used_percent(1000, 1), 99U);
    EXPECT_EQ(used_percent(1'000'000'001, 1), 99U);
    EXPECT_EQ(used_percent(1'000'000'001, 1'000'000'000), 0U);
    EXPECT_EQ(used_percent(10, 11), 0U); // more is left than the capacity that holds now
}

TEST(Verdict, IsNotTighterThanAnEqualShare) {
    EXPECT_FALSE(is_tighter(limit_of(10), {.remaining = 1}, limit_of(100), {.remaining = 10}));
    EXPECT_FALSE(is_tighter(limit_of(100), {.remaining = 10}, limit_of(10), {.remaining = 1}));
}

} // namespace
} // namespace rate_limit
