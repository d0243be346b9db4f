// The verdicts that the replies of each algorithm lead to.

#include "rule_reply_test.hpp"

#include "unit/rate_limit/algorithms.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>

namespace rate_limit {
namespace {

// Sliding log: { left, next, reset, wait }

TEST(SlidingLogVerdict, TellsItsTimesWhereItGrants) {
    const Verdict expected{.remaining = 99, .next_unit = 60s, .reset = 60s + 1us};
    EXPECT_EQ(charged(limit_of(100), {99, 60'000'000, 60'000'001, 0}), expected);
}

TEST(SlidingLogVerdict, TellsTheWaitWhereItDenies) {
    const Verdict expected{.decision = Decision::denied,
                           .remaining = 0,
                           .retry_after = 2s,
                           .next_unit = 1us,
                           .reset = 2500ms};
    EXPECT_EQ(uncharged(limit_of(100), {-1, 1, 2'500'000, 2'000'000}), expected);
}

TEST(SlidingLogVerdict, TellsWhatIsLeftWhereALargerCostIsDenied) {
    // 93 of 100 are taken, and ten are asked for
    const auto verdict = uncharged(quota_of(Algorithm::sliding_log, 10), {-3, 1, 3, 2});
    EXPECT_EQ(verdict->decision, Decision::denied);
    EXPECT_EQ(verdict->remaining, 7u);
    EXPECT_EQ(verdict->retry_after, 2us);
}

TEST(SlidingLogVerdict, HoldsTheLargestNumbers) {
    const auto verdict = uncharged(limit_of(100), {-largest, largest, largest, largest});
    ASSERT_TRUE(verdict);
    EXPECT_EQ(verdict->retry_after, std::chrono::microseconds(largest));
    EXPECT_EQ(verdict->remaining, 0u);
}

TEST(SlidingLogVerdict, IsNothingWhereTheReplyIsNone) {
    const Numbers replies[] = {{100, 0, 0, 0}, {largest, 0, 0, 0}, {0, -1, 0, 0},
                               {0, 0, -1, 0},  {0, 0, 0, -1},      {-1, 0, 0, -1}};
    for (const Numbers &reply : replies) {
        EXPECT_EQ(charged(limit_of(100), reply), std::nullopt) << testing::PrintToString(reply);
    }
}

// Fixed window: { left, time left }

TEST(FixedWindowVerdict, ComesBackWholeWhenTheWindowEnds) {
    const Verdict grant{.remaining = 40, .next_unit = 7s, .reset = 7s};
    EXPECT_EQ(charged(quota_of(Algorithm::fixed_window), {40, 7'000'000}), grant);
    const Verdict denial{.decision = Decision::denied,
                         .remaining = 0,
                         .retry_after = 7s,
                         .next_unit = 7s,
                         .reset = 7s};
    EXPECT_EQ(uncharged(quota_of(Algorithm::fixed_window), {-1, 7'000'000}), denial);
}

TEST(FixedWindowVerdict, HasNothingToWaitForWhereNothingWasTaken) {
    const Verdict untouched{.remaining = 100};
    EXPECT_EQ(charged(quota_of(Algorithm::fixed_window, 0), {100, 60'000'000}), untouched);
    EXPECT_EQ(uncharged(quota_of(Algorithm::fixed_window, 7), {93, 60'000'000}), untouched);
}

TEST(FixedWindowVerdict, IsNothingWhereTheReplyIsNone) {
    EXPECT_EQ(charged(quota_of(Algorithm::fixed_window), {100, 1}), std::nullopt);
    EXPECT_EQ(charged(quota_of(Algorithm::fixed_window), {99, -1}), std::nullopt);
    EXPECT_EQ(charged(quota_of(Algorithm::fixed_window, 2), {99, 1}), std::nullopt);
}

// Sliding window: { previous, current, elapsed }; 100 in 60 seconds

Quota sliding_window(uint64_t limit, std::chrono::milliseconds window, uint64_t cost = 1) {
    return {.algorithm = Algorithm::sliding_window, .window = window, .limit = limit, .cost = cost};
}

TEST(SlidingWindowVerdict, WeighsTheWindowBeforeByItsOverlap) {
    // 42 * 45/60 + 18 = 49.5, so 50 are left; one more at 49, which takes 1/42 of the window less
    const auto verdict = charged(sliding_window(100, 60s), {42, 18, 15'000'000});
    ASSERT_TRUE(verdict);
    EXPECT_EQ(verdict->decision, Decision::granted);
    EXPECT_EQ(verdict->remaining, 50u);
    EXPECT_EQ(verdict->next_unit, 714'286us); // 0.5/42 of 60 s, rounded up
    EXPECT_EQ(verdict->reset, 105s);          // then the next window has ended
}

TEST(SlidingWindowVerdict, WaitsForTheOverlapToShrink) {
    // Ten of ten were taken in the 10 s before. All of them count at its end, nine a second later.
    const auto verdict = uncharged(sliding_window(10, 10s), {-11, 0, 1});
    ASSERT_TRUE(verdict);
    EXPECT_EQ(verdict->decision, Decision::denied);
    EXPECT_EQ(verdict->remaining, 0u);
    EXPECT_EQ(verdict->retry_after, 999'999us);
    EXPECT_EQ(verdict->next_unit, 999'999us);
    EXPECT_EQ(verdict->reset, 9'999'999us);
    EXPECT_EQ(uncharged(sliding_window(10, 10s, 5), {-11, 0, 1})->retry_after, 4'999'999us);
}

TEST(SlidingWindowVerdict, WaitsBeyondTheWindowWhereItAloneIsFull) {
    const auto verdict = uncharged(sliding_window(10, 10s), {-1, 10, 4'000'000});
    ASSERT_TRUE(verdict);
    EXPECT_EQ(verdict->remaining, 0u);
    EXPECT_EQ(verdict->retry_after, 7s); // 10 * 9/10 + 1
    EXPECT_EQ(verdict->reset, 16s);
}

TEST(SlidingWindowVerdict, IncludesTheWayBackWhereTheClockSteppedBack) {
    const auto verdict = uncharged(sliding_window(10, 10s), {-1, 10, -3'000'000});
    ASSERT_TRUE(verdict);
    EXPECT_EQ(verdict->retry_after, 14s); // 3 s back to its start, 10 s of it, 1 s of the next
    EXPECT_EQ(verdict->remaining, 0u);
}

TEST(SlidingWindowVerdict, IsFreeWhereNothingIsTaken) {
    EXPECT_EQ(charged(sliding_window(10, 10s, 0), {0, 0, 5}), Verdict{.remaining = 10});
}

TEST(SlidingWindowVerdict, NeedsNotBeToldOfTheCharge) {
    for (const Numbers &reply : {Numbers{42, 18, 15'000'000}, Numbers{-43, 80, 15'000'000}}) {
        EXPECT_EQ(charged(sliding_window(100, 60s), reply),
                  uncharged(sliding_window(100, 60s), reply));
    }
}

TEST(SlidingWindowVerdict, HoldsTheLargestNumbers) {
    const Quota quota = sliding_window(largest_number, longest_window, largest_number);
    const int64_t window = std::chrono::microseconds(longest_window).count();
    for (const int64_t previous : {int64_t{0}, largest - 1}) {
        for (const int64_t current : {int64_t{0}, largest}) {
            for (const int64_t elapsed : {-largest, int64_t{0}, window - 1}) {
                const auto verdict = uncharged(quota, {-1 - previous, current, elapsed});
                ASSERT_TRUE(verdict);
                EXPECT_LE(verdict->remaining, quota.limit);
                EXPECT_GE(verdict->retry_after, 0us);
                EXPECT_LE(verdict->next_unit, verdict->reset);
                EXPECT_LE(verdict->reset, std::chrono::microseconds(largest + 2 * window));
            }
        }
    }
}

TEST(SlidingWindowVerdict, IsNothingWhereTheReplyIsNone) {
    EXPECT_EQ(charged(sliding_window(10, 10s), {0, -1, 0}), std::nullopt);
    EXPECT_EQ(charged(sliding_window(10, 10s), {0, 1, 10'000'000}), std::nullopt);
    EXPECT_TRUE(charged(sliding_window(10, 10s), {0, 1, 9'999'999}));
}

// Buckets: { ahead, fraction }

TEST(BucketVerdict, TellsWhatTheStateLeaves) {
    for (const Algorithm algorithm : buckets) {
        const auto verdict = charged(bucket_of(algorithm), {1'000'000, 0, 0});
        ASSERT_TRUE(verdict);
        EXPECT_EQ(*verdict, (Verdict{.remaining = 4, .next_unit = 1s, .reset = 1s}));
        EXPECT_EQ(charged(bucket_of(algorithm), {0, 0, 0}), Verdict{.remaining = 5});
    }
}

TEST(BucketVerdict, WaitsForWhatIsMissing) {
    for (const Algorithm algorithm : buckets) {
        Verdict expected{.decision = Decision::denied,
                         .remaining = 0,
                         .retry_after = 250ms,
                         .next_unit = 250ms,
                         .reset = 4250ms};
        EXPECT_EQ(uncharged(bucket_of(algorithm), {-1 - 4'250'000, 0, 0}), expected);
        expected.retry_after = 3250ms;
        EXPECT_EQ(uncharged(bucket_of(algorithm, 4), {-1 - 4'250'000, 0, 0}), expected);
        expected = {.decision = Decision::denied,
                    .remaining = 2,
                    .retry_after = 3s,
                    .next_unit = 1s,
                    .reset = 3s};
        EXPECT_EQ(uncharged(bucket_of(algorithm, 5), {-1 - 3'000'000, 0, 0}), expected);
    }
}

TEST(BucketVerdict, RoundsFractionsUp) {
    // A unit comes back each 1/3 s. Two are taken, so the state is 666,666 2/3 us ahead.
    const Quota quota{.algorithm = Algorithm::gcra, .window = 1s, .limit = 3, .burst = 1};
    const auto verdict = uncharged(quota, {-1 - 666'666, 2, 0});
    EXPECT_EQ(*verdict, (Verdict{.decision = Decision::denied,
                                 .remaining = 0,
                                 .retry_after = 333'334us,
                                 .next_unit = 333'334us,
                                 .reset = 666'667us}));
}

TEST(BucketVerdict, GoesOnWhereTheLimitWasLowered) {
    for (const Algorithm algorithm : buckets) {
        const auto verdict = uncharged(bucket_of(algorithm), {-1 - 9'000'000, 0, 0});
        EXPECT_EQ(*verdict, (Verdict{.decision = Decision::denied,
                                     .remaining = 0,
                                     .retry_after = 5s,
                                     .next_unit = 5s,
                                     .reset = 9s}));
    }
}

TEST(BucketVerdict, IsNothingWhereItGrantsMoreThanThereIs) {
    const Quota quota{.algorithm = Algorithm::leaky_bucket, .window = 1s, .limit = 10, .burst = 4};
    EXPECT_TRUE(verdict_of_reply(quota, std::array<int64_t, 3>{500'000, 0, 0}, true));
    EXPECT_FALSE(verdict_of_reply(quota, std::array<int64_t, 3>{500'001, 0, 0}, true));
    EXPECT_TRUE(verdict_of_reply(quota, std::array<int64_t, 3>{-1 - 500'001, 0, 0}, false));
}

TEST(BucketVerdict, IsNothingWhereTheFractionIsNone) {
    Quota quota{.algorithm = Algorithm::gcra, .window = 1s, .limit = 3};
    EXPECT_TRUE(charged(quota, {0, 2, 0}));
    EXPECT_EQ(charged(quota, {0, 3, 0}), std::nullopt);
    EXPECT_EQ(charged(quota, {0, -1, 0}), std::nullopt);
    EXPECT_EQ(charged(quota, {0, 0, -1}), std::nullopt);
    quota.limit = 1;
    EXPECT_EQ(charged(quota, {0, 1, 0}), std::nullopt);
}

TEST(BucketVerdict, HoldsTheLargestNumbers) {
    for (const Algorithm algorithm : buckets) {
        for (const uint64_t limit : {uint64_t{1}, largest_number - 1, largest_number}) {
            for (const auto window : {shortest_window, longest_window}) {
                Quota quota{.algorithm = algorithm,
                            .window = window,
                            .limit = limit,
                            .burst = largest_number,
                            .delay = largest_number,
                            .cost = largest_number};
                for (const int64_t state : {-largest, int64_t{0}, int64_t{-1}}) {
                    const auto verdict = charged(quota, {state, 0, 0});
                    ASSERT_TRUE(verdict);
                    EXPECT_LE(verdict->remaining, quota.capacity());
                    EXPECT_GE(verdict->retry_after, 0us);
                    EXPECT_LE(verdict->next_unit, verdict->reset);
                    EXPECT_LE(verdict->reset, std::chrono::microseconds(largest));
                    EXPECT_LE(verdict->delay, verdict->reset);
                }
            }
        }
    }
}

// Leaky bucket: what the burst takes is held back

TEST(LeakyBucketVerdict, HoldsBackWhatIsAboveTheFirstUnit) {
    Quota quota = bucket_of(Algorithm::leaky_bucket);
    EXPECT_EQ(charged(quota, {500'000, 0, 0})->delay, 0us);
    EXPECT_EQ(charged(quota, {1'000'000, 0, 0})->delay, 0us);
    EXPECT_EQ(charged(quota, {1'000'001, 0, 0})->delay, 1us);
    EXPECT_EQ(charged(quota, {4'250'000, 0, 0})->delay, 3250ms);
    EXPECT_EQ(charged(quota, {5'000'000, 0, 0})->delay, 4s);
    quota.delay = 3;
    EXPECT_EQ(charged(quota, {4'000'000, 0, 0})->delay, 0us);
    EXPECT_EQ(charged(quota, {4'250'000, 0, 0})->delay, 250ms);
    EXPECT_EQ(charged(quota, {5'000'000, 0, 0})->delay, 1s);
    quota.delay = 4;
    EXPECT_EQ(charged(quota, {5'000'000, 0, 0})->delay, 0us);
}

TEST(LeakyBucketVerdict, HoldsBackByFractionsRoundedUp) {
    const Quota quota{.algorithm = Algorithm::leaky_bucket, .window = 1s, .limit = 3, .burst = 2};
    EXPECT_EQ(charged(quota, {333'333, 1, 0})->delay, 0us);
    EXPECT_EQ(charged(quota, {333'333, 2, 0})->delay, 1us);
    EXPECT_EQ(charged(quota, {666'666, 2, 0})->delay, 333'334us);
    EXPECT_EQ(charged(quota, {1'000'000, 0, 0})->delay, 666'667us);
}

TEST(LeakyBucketVerdict, HoldsBackNothingThatTookNothing) {
    EXPECT_EQ(uncharged(bucket_of(Algorithm::leaky_bucket), {3'000'000, 0, 0})->delay, 0us);
    EXPECT_EQ(uncharged(bucket_of(Algorithm::leaky_bucket), {-1 - 5'000'000, 0, 0})->delay, 0us);
    EXPECT_EQ(charged(bucket_of(Algorithm::leaky_bucket, 0), {3'000'000, 0, 0})->delay, 0us);
}

TEST(LeakyBucketVerdict, IsTheOnlyOneThatHoldsBack) {
    for (const Algorithm algorithm : all_algorithms) {
        const bool is_window = !is_bucket(algorithm);
        const Quota quota = is_window ? quota_of(algorithm) : bucket_of(algorithm);
        Numbers reply(reply_length(algorithm), 0);
        reply[0] = is_window ? 50 : 5'000'000;
        EXPECT_EQ(charged(quota, reply)->delay, algorithm == Algorithm::leaky_bucket ? 4s : 0s)
            << to_string(algorithm);
    }
}

// Concurrency: { left }

TEST(ConcurrencyVerdict, DoesNotKnowWhenASlotFallsFree) {
    const Quota quota = quota_of(Algorithm::concurrency);
    EXPECT_EQ(charged(quota, {99}), (Verdict{.remaining = 99, .reset = 1s}));
    EXPECT_EQ(
        uncharged(quota, {-1}),
        (Verdict{.decision = Decision::denied, .remaining = 0, .retry_after = 1s, .reset = 1s}));
    EXPECT_EQ(uncharged(quota, {99}), Verdict{.remaining = 100});
    EXPECT_EQ(charged(quota_of(Algorithm::concurrency, 0), {100}), Verdict{.remaining = 100});
    EXPECT_EQ(charged(quota, {100}), std::nullopt);
}

} // namespace
} // namespace rate_limit
