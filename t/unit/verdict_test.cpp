#include "rate_limit/verdict.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;

Rule limit_of(uint64_t limit) {
    Rule rule;
    rule.zone = "z";
    rule.limit = limit;
    rule.window = 60s;
    return rule;
}

TEST(Verdict, IsGrantedWhereThereIsNothingToWaitFor) {
    const std::array<int64_t, 4> reply{0, 99, 60'000'000, 60'000'001};
    const Verdict expected{
        .decision = Decision::granted, .remaining = 99, .next_unit = 60s, .reset = 60s + 1us};
    EXPECT_EQ(verdict_of_reply(limit_of(100), reply), expected);
}

TEST(Verdict, IsDeniedWhereThereIsAWait) {
    const std::array<int64_t, 4> reply{1, 0, 1, 2'500'000};
    const Verdict expected{.decision = Decision::denied,
                           .remaining = 0,
                           .retry_after = 1us,
                           .next_unit = 1us,
                           .reset = 2500ms};
    EXPECT_EQ(verdict_of_reply(limit_of(100), reply), expected);
}

TEST(Verdict, HoldsTheLargestNumbers) {
    constexpr int64_t largest = int64_t{1} << 53; // of Lua
    const std::array<int64_t, 4> reply{largest, 100, largest, largest};
    const auto verdict = verdict_of_reply(limit_of(100), reply);
    ASSERT_TRUE(verdict);
    EXPECT_EQ(verdict->retry_after, std::chrono::microseconds(largest));
    EXPECT_EQ(verdict->remaining, 100u);
    for (const int64_t beyond : {largest + 1, INT64_MAX, INT64_MIN}) {
        const std::array<int64_t, 4> impossible{0, 100, beyond, 0};
        EXPECT_EQ(verdict_of_reply(limit_of(100), impossible), std::nullopt);
    }
}

TEST(Verdict, IsNothingWhereTheReplyIsNone) {
    const std::vector<std::vector<int64_t>> replies = {
        {},
        {0},
        {0, 1, 2},
        {0, 1, 2, 3, 4},
        {-1, 0, 0, 0},
        {0, -1, 0, 0},
        {0, 0, -1, 0},
        {0, 0, 0, -1},
        {INT64_MIN, 0, 0, 0},
        {0, 101, 0, 0},
        {0, INT64_MAX, 0, 0},
    };
    for (const auto &reply : replies) {
        EXPECT_EQ(verdict_of_reply(limit_of(100), reply), std::nullopt)
            << testing::PrintToString(reply);
    }
}

TEST(Verdict, NeedsNoCounterForALimitOfZero) {
    EXPECT_EQ(verdict_without_counter(limit_of(0)), Verdict{.decision = Decision::never});
    EXPECT_EQ(verdict_without_counter(limit_of(1)), std::nullopt);
}

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

TEST(Verdict, IsNotTighterThanAnEqualShare) {
    EXPECT_FALSE(is_tighter(limit_of(10), {.remaining = 1}, limit_of(100), {.remaining = 10}));
    EXPECT_FALSE(is_tighter(limit_of(100), {.remaining = 10}, limit_of(10), {.remaining = 1}));
}

} // namespace
} // namespace rate_limit
