// What the local fallback grants by each algorithm, whatever its clock does.

#include "local_test.hpp"

#include "unit/rate_limit/algorithms.hpp"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;

constexpr int64_t millisecond = 1'000;
constexpr int64_t day = 86'400 * second; // a multiple of the windows here

struct Step {
    int64_t time; // after a day that begins a window
    uint64_t cost;
    Verdict expected; // next_unit, reset and delay are not compared
};

Verdict granted(uint64_t remaining) {
    return {.remaining = remaining};
}
Verdict denied(microseconds retry_after, uint64_t remaining = 0) {
    return {.decision = Decision::denied, .remaining = remaining, .retry_after = retry_after};
}
Verdict never(uint64_t remaining) {
    return {.decision = Decision::never, .remaining = remaining};
}

void expect(const Quota &quota, const std::vector<Step> &steps, bool aligned = false) {
    Host host(day);
    for (const auto &[time, cost, expected] : steps) {
        const Verdict verdict = host.ask(asking(quota, cost), day + time, aligned);
        EXPECT_EQ(verdict.decision, expected.decision) << time << ", " << cost;
        EXPECT_EQ(verdict.remaining, expected.remaining) << time << ", " << cost;
        EXPECT_EQ(verdict.retry_after, expected.retry_after) << time << ", " << cost;
    }
}

TEST(Local, GcraGrantsAsItsVectors) {
    constexpr int64_t ms = millisecond;
    expect({.algorithm = Algorithm::gcra, .window = 1s, .limit = 1, .burst = 4},
           {{0, 6, never(5)},
            {0, 1, granted(4)},
            {0, 1, granted(3)},
            {0, 1, granted(2)},
            {0, 1, granted(1)},
            {0, 1, granted(0)},
            {0, 1, denied(1s)},
            {3000 * ms, 1, granted(2)},
            {3100 * ms, 1, granted(1)},
            {4000 * ms, 1, granted(1)},
            {8000 * ms, 1, granted(4)},
            {9500 * ms, 1, granted(4)},
            {9500 * ms, 0, granted(4)},
            {9500 * ms, 2, granted(2)},
            {9500 * ms, 5, denied(3s, 2)},
            {15000 * ms, 6, never(5)}});
}

TEST(Local, TokenBucketGrantsAsItsVectors) {
    expect({.algorithm = Algorithm::token_bucket, .window = 5s, .limit = 10},
           {{0, 10, granted(0)},
            {0, 1, denied(500ms)},
            {499'999, 1, denied(1us)},
            {500'000, 1, granted(0)},
            {3'250'000, 6, denied(250ms, 5)},
            {3'250'000, 5, granted(0)},
            {3'500'000, 1, granted(0)}, // the fraction was kept
            {3'500'000, 1, denied(500ms)},
            {1000 * second, 11, never(10)},
            {1000 * second, 10, granted(0)}});
}

TEST(Local, AlignedFixedWindowGrantsAsItsVectors) {
    expect({.algorithm = Algorithm::fixed_window, .window = 10s, .limit = 3},
           {{9'999'000, 3, granted(0)},
            {9'999'000, 1, denied(1ms)},
            {10 * second, 3, granted(0)},
            {10 * second, 1, denied(10s)},
            {19'999'999, 1, denied(1us)},
            {20 * second, 2, granted(1)},
            {20 * second, 2, denied(10s, 1)},
            {20 * second, 1, granted(0)},
            {25 * second, 4, never(0)}},
           true);
}

TEST(Local, FixedWindowBeginsWithTheFirstUnit) {
    expect({.algorithm = Algorithm::fixed_window, .window = 10s, .limit = 3},
           {{7 * second, 0, granted(3)},
            {9 * second, 3, granted(0)},
            {18'999'999, 1, denied(1us)},
            {19 * second, 1, granted(2)}});
}

TEST(Local, SlidingWindowGrantsAsItsVectors) {
    expect({.algorithm = Algorithm::sliding_window, .window = 10s, .limit = 10},
           {{9 * second, 10, granted(0)},
            {10 * second, 1, denied(1s)},
            {10'999'000, 1, denied(1ms)},
            {11 * second, 1, granted(0)},
            {11 * second, 1, denied(1s)},
            {14'999'000, 1, granted(2)}});
}

TEST(Local, SlidingWindowWeighsThePreviousOne) {
    const Quota quota{.algorithm = Algorithm::sliding_window, .window = 60s, .limit = 100};
    expect(quota, {{30 * second, 42, granted(58)},
                   {75 * second, 18, granted(50)}, // 49.5 are taken
                   {75 * second, 51, denied(714'286us, 50)}});
}

// The log's entries are exact if they are of the first time, or eighths of a window later.
TEST(Local, SlidingLogGrantsAsItsVectors) {
    const Quota quota{.window = 10s, .limit = 3};
    expect(quota, {{0, 1, granted(2)},
                   {1'250'000, 1, granted(1)},
                   {2'500'000, 1, granted(0)},
                   {5 * second, 1, denied(5s)},
                   {9'999'999, 1, denied(1us)},
                   {10 * second, 1, granted(0)},
                   {10'500'000, 1, denied(750ms)},
                   {10'500'000, 2, denied(2s)},
                   {11'250'000, 1, granted(0)},
                   {12'500'000, 1, granted(0)},
                   {12'500'000, 1, denied(7500ms)},
                   {100 * second, 3, granted(0)},
                   {100 * second, 1, denied(10s)},
                   {110 * second, 4, never(3)},
                   {110 * second, 3, granted(0)}});
}

TEST(Local, SlidingLogGivesUnitsBackAnEighthOfAWindowLateAtMost) {
    const Quota quota{.window = 8s, .limit = 2};
    expect(quota, {{0, 1, granted(1)},
                   {1, 1, granted(0)},
                   {8 * second, 1, granted(0)}, // the first one came back
                   {8 * second, 1, denied(1s)}, // 1 us would be exact
                   {9 * second, 1, granted(0)},
                   {9 * second, 1, denied(7s)}});
}

// Another limit divides a microsecond otherwise.
TEST(Local, BucketRoundsAgainstTheClientWhereItsLimitChanges) {
    Quota quota{.algorithm = Algorithm::token_bucket, .window = 1s, .limit = 3};
    Host host;
    EXPECT_EQ(host.ask(quota, 0).reset, 333'334us); // a third of a microsecond is kept
    quota.limit = 10;
    EXPECT_EQ(host.ask(asking(quota, 0), 0).reset, 333'334us);
    EXPECT_EQ(host.ask(quota, 0).reset, 433'334us);
    EXPECT_EQ(host.ask(asking(quota, 0), 433'333).reset, 1us);
}

/// A bucket of 100 units that gets so many a minute, and whose limit changes.
Quota bucket_in_units(uint64_t limit) {
    Quota quota{.algorithm = Algorithm::token_bucket, .window = 60s, .limit = limit, .burst = 100};
    quota.other_limit = OtherLimit::counts_in_units;
    return quota;
}

TEST(Local, BucketKeepsUnitsTakenWhereItsLimitHasChanged) {
    const Quota slow = bucket_in_units(4);
    const Quota fast = bucket_in_units(400);
    Host host;
    host.ask(asking(fast, 60), 0);
    EXPECT_EQ(host.ask(asking(slow, 0), 0).remaining, 40U);
    EXPECT_EQ(host.ask(asking(slow, 41), 0).retry_after, 15s);
    EXPECT_EQ(host.ask(asking(slow, 0), 150 * second).remaining, 50U);
    EXPECT_EQ(host.ask(asking(fast, 51), 150 * second).retry_after, 150ms) << "also if it denies";
    EXPECT_EQ(host.ask(asking(fast, 51), 150 * second + 150'000).decision, Decision::granted);
}

TEST(Local, BucketOfLimitsByVariablesKeepsUnitsTakenByAnOperatorsNumber) {
    Quota plan{.algorithm = Algorithm::token_bucket, .window = 60s, .limit = 60};
    Quota raised = plan;
    raised.limit = 6'000;
    raised.other_limit = OtherLimit::counts_in_units;
    Host host;
    host.ask(asking(plan, 10), 0);
    EXPECT_EQ(host.ask(asking(raised, 0), 0).remaining, 5'990U);
    EXPECT_EQ(host.ask(asking(plan, 0), 0).remaining, 50U) << "the number is gone";
    host.ask(asking(raised, 900), 0);
    host.keep(settle_locally(host.known(0), plan, {.to_charge = 1}, false, host.at(0)));
    EXPECT_EQ(host.ask(asking(raised, 0), 0).remaining, 5'089U);
    Quota other = plan;
    other.limit = other.burst.emplace(600);
    EXPECT_EQ(host.ask(asking(other, 0), 0).remaining, 0U);
}

// Where it grants, another rule may deny.
TEST(Local, BucketIsConvertedWhetherItGrantsOrNot) {
    const Quota slow = bucket_in_units(4);
    const Quota fast = bucket_in_units(400);
    Host host;
    host.ask(asking(fast, 60), 0);
    const LocalDecision decision = decide_locally(host.known(0), slow, false, host.at(0));
    ASSERT_TRUE(decision.after && decision.converted);
    host.keep(decision.converted);
    EXPECT_EQ(host.ask(asking(slow, 0), 30 * second).remaining, 42U);
}

// As where the answers of Redis come later and later, or earlier and earlier.
TEST(Local, BucketIsConvertedByAVerdictThatSaysNoMoreThanWasKnown) {
    const Quota slow = bucket_in_units(4);
    const Quota fast = bucket_in_units(400);
    Host host;
    host.ask(asking(fast, 60), 0);
    const Verdict denied{.decision = Decision::denied, .remaining = 40, .reset = 900s - 3us};
    const microseconds asked = host.at(0).monotonic;
    host.keep(record_verdict(host.known(0), asking(slow, 0), denied, 100, asked));
    EXPECT_EQ(host.ask(asking(slow, 0), 30 * second).remaining, 42U);
}

TEST(Local, BucketGivesNothingBackByALimitThatHasChangedSince) {
    const Quota slow = bucket_in_units(4);
    const Quota fast = bucket_in_units(400);
    Host host;
    const LocalDecision charged = decide_locally(std::nullopt, asking(slow, 50), false, host.at(0));
    host.keep(charged.after);
    host.ask(asking(fast, 0), 0);
    host.ask(asking(fast, 50), 10 * second); // the others have come back by then
    host.keep(settle_locally(host.known(10 * second), slow,
                             {.receipt = charged.receipt, .to_return = 50}, false,
                             host.at(10 * second)));
    EXPECT_EQ(host.ask(asking(fast, 0), 10 * second).remaining, 50U);
}

TEST(Local, BucketTakesNoOldLimitBackWithADebt) {
    const Quota slow = bucket_in_units(4);
    const Quota fast = bucket_in_units(400);
    for (const auto &[before, after, left] : {std::tuple{fast, slow, 40U}, {slow, fast, 80U}}) {
        Host host;
        host.ask(asking(before, 50), 0);
        host.ask(asking(after, 0), 0);
        host.keep(settle_locally(host.known(0), before, {.to_charge = 10}, false, host.at(0)));
        EXPECT_EQ(host.ask(asking(after, 0), 6 * second).remaining, left);
    }
}

TEST(Local, LeakyBucketHoldsBack) {
    Host host;
    Quota quota{.algorithm = Algorithm::leaky_bucket, .window = 10s, .limit = 10, .burst = 4};
    EXPECT_EQ(host.ask(quota, 0).delay, 0s);
    EXPECT_EQ(host.ask(quota, 0).delay, 1s);
    EXPECT_EQ(host.ask(asking(quota, 0), 0).delay, 0s);
    EXPECT_EQ(host.ask(quota, 500'000).delay, 1500ms);
    quota.delay = 2;
    EXPECT_EQ(host.ask(quota, 500'000).delay, 500ms);
}

TEST(Local, TellsAllNumbersOfAVerdict) {
    const auto verdict = [](Algorithm algorithm) {
        Host host;
        const Quota quota{.algorithm = algorithm, .window = 10s, .limit = 4, .cost = 2};
        return host.ask(quota, day + 2 * second);
    };
    const microseconds length = 10s;
    EXPECT_EQ(verdict(Algorithm::fixed_window),
              (Verdict{.remaining = 2, .next_unit = length, .reset = length}));
    EXPECT_EQ(verdict(Algorithm::sliding_log),
              (Verdict{.remaining = 2, .next_unit = length, .reset = length}));
    EXPECT_EQ(verdict(Algorithm::sliding_window),
              (Verdict{.remaining = 2, .next_unit = 13s, .reset = 18s}));
    EXPECT_EQ(verdict(Algorithm::token_bucket),
              (Verdict{.remaining = 2, .next_unit = 2500ms, .reset = 5s}));
    EXPECT_EQ(verdict(Algorithm::gcra), (Verdict{.decision = Decision::never, .remaining = 1}));
    EXPECT_EQ(verdict(Algorithm::concurrency), (Verdict{.remaining = 2, .reset = 1s}));
}

TEST(Local, KeepsNothingOfWhatTakesNothing) {
    for (const Algorithm algorithm : all_algorithms) {
        const Quota quota{.algorithm = algorithm, .window = 10s, .limit = 1};
        Host host;
        EXPECT_FALSE(decide_locally({}, asking(quota, 0), false, host.at(0)).after);
        EXPECT_FALSE(decide_locally({}, asking(quota, 2), false, host.at(0)).after);
        const auto first = decide_locally({}, quota, false, host.at(0));
        ASSERT_TRUE(first.after);
        EXPECT_EQ(first.after->time, host.at(0).monotonic);
        EXPECT_GT(first.after->holds_for, 0s);
        const auto next = decide_locally(first.after, quota, false, host.at(0));
        EXPECT_EQ(next.verdict.decision, Decision::denied) << to_string(algorithm);
        EXPECT_FALSE(next.after);
    }
}

TEST(Local, NeverGrantsWithoutCapacity) {
    for (const Algorithm algorithm : all_algorithms) {
        Host host;
        const Quota none{.algorithm = algorithm, .window = 10s, .limit = 0, .burst = 7, .cost = 0};
        EXPECT_EQ(host.ask(none, 0), Verdict{.decision = Decision::never});
    }
}

TEST(Local, HoldsTheLargestNumbers) {
    for (const Algorithm algorithm : all_algorithms) {
        for (const auto window : {shortest_window, longest_window}) {
            for (const uint64_t limit : {largest_limit(algorithm) - 1, largest_limit(algorithm)}) {
                const Quota quota{.algorithm = algorithm, .window = window, .limit = limit};
                const uint64_t capacity = quota.capacity();
                Host host(day);
                const Quota all = asking(quota, capacity);
                EXPECT_EQ(host.ask(all, day).decision, Decision::granted);
                const Verdict next = host.ask(quota, day);
                EXPECT_EQ(next.decision, Decision::denied);
                EXPECT_GT(next.retry_after, 0us);
                EXPECT_LE(next.reset, algorithm == Algorithm::concurrency ? 1s : 2 * window);
                EXPECT_EQ(host.ask(asking(quota, largest_number), day).decision,
                          capacity == largest_number ? Decision::denied : Decision::never);
            }
        }
    }
    Host host;
    const Quota slow{.algorithm = Algorithm::token_bucket,
                     .window = longest_window,
                     .limit = largest_number - 1,
                     .burst = 9 * largest_number / 10,
                     .cost = 9 * largest_number / 10};
    EXPECT_EQ(host.ask(slow, 0).reset, slow.refill());
}

TEST(Local, KnowsNothingFromARecordThatHoldsNoLonger) {
    for (const Algorithm algorithm : all_algorithms) {
        if (algorithm == Algorithm::concurrency) {
            continue; // the table forgets it
        }
        const Quota quota{
            .algorithm = algorithm, .window = 10s, .limit = 700'001, .burst = 6, .cost = 6};
        const int64_t time = day + 7 * second;
        const Host host(day);
        const auto old = decide_locally({}, quota, true, host.at(time));
        ASSERT_TRUE(old.after);
        for (const int64_t later : {int64_t{0}, int64_t{1}, second, 5 * second, 100 * second}) {
            const int64_t now = time + old.verdict.reset.count() + later;
            const auto expected = decide_locally({}, quota, true, host.at(now));
            const auto decision = decide_locally(old.after, quota, true, host.at(now));
            EXPECT_EQ(decision.verdict, expected.verdict) << to_string(algorithm) << later;
            EXPECT_EQ(decision.after, expected.after) << to_string(algorithm) << later;
            const microseconds asked = host.at(now).monotonic;
            EXPECT_EQ(record_verdict(old.after, quota, expected.verdict, 100, asked),
                      record_verdict({}, quota, expected.verdict, 100, asked))
                << to_string(algorithm) << later;
        }
    }
}

// The host has been up for less than a window.
TEST(Local, BeginsBeforeItsClock) {
    for (const Algorithm algorithm : {Algorithm::fixed_window, Algorithm::sliding_window}) {
        const Quota quota{.algorithm = algorithm, .window = 24h, .limit = 2};
        Host host(3 * day + 1000 * second);
        EXPECT_EQ(host.ask(quota, 3 * day + 1000 * second, true).remaining, 1u);
        EXPECT_EQ(host.ask(quota, 3 * day + 1001 * second, true).remaining, 0u);
        EXPECT_EQ(host.ask(quota, 4 * day - 1, true).decision, Decision::denied);
        const Verdict peek = host.ask(asking(quota, 0), 4 * day, true);
        EXPECT_EQ(peek.remaining, algorithm == Algorithm::fixed_window ? 2u : 0u);
    }
}

// The clock of Unix time is set. A window that has begun keeps its length.
TEST(Local, IsNotMovedByUnixTime) {
    for (const Algorithm algorithm : {Algorithm::fixed_window, Algorithm::sliding_window}) {
        const Quota quota{.algorithm = algorithm, .window = 10s, .limit = 2};
        const auto first = decide_locally(
            {}, quota, true, {.monotonic = 100s, .unix_time = microseconds(day + 4 * second)});
        for (const int64_t unix_time : {int64_t{0}, day, day + 9 * second, 2 * day}) {
            const auto next =
                decide_locally(first.after, quota, true,
                               {.monotonic = 101s, .unix_time = microseconds(unix_time)});
            EXPECT_EQ(next.verdict.remaining, 0u);
            EXPECT_EQ(next.verdict.reset, algorithm == Algorithm::fixed_window ? 5s : 15s);
        }
    }
}

} // namespace
} // namespace rate_limit
