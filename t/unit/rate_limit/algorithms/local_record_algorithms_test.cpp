// What this host records of verdicts of Redis: tests that hold for one algorithm alone.

#include "local_record_test.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace rate_limit {
namespace {

TEST(LocalRecord, OfTheWindowBeforeChangesNothing) {
    for (const Algorithm algorithm : {Algorithm::fixed_window, Algorithm::sliding_window}) {
        const Quota quota = twenty(algorithm);
        Redis redis(algorithm);
        Host host(begin);
        const Verdict late = redis.ask(asking(quota, 18), begin + 5 * second);
        const int64_t now = begin + 24 * second;
        host.record(asking(quota, 3), redis.ask(asking(quota, 3), now), now);
        const Verdict before = host.ask(asking(quota, 0), now, true);
        host.record(asking(quota, 18), late, now, 100, 19 * second);
        EXPECT_EQ(host.ask(asking(quota, 0), now, true), before);
    }
}

TEST(LocalRecord, EndsAWindowNoEarlierThanWasKnown) {
    for (const Algorithm algorithm : {Algorithm::fixed_window, Algorithm::sliding_window}) {
        const Quota quota = twenty(algorithm);
        Redis redis(algorithm);
        Host host(begin);
        host.record(quota, redis.ask(quota, begin), begin);
        const Verdict next = redis.ask(quota, begin + second);
        host.record(quota, next, begin + second, 100, second / 10);
        const Verdict peek = host.ask(asking(quota, 0), begin + second, true);
        EXPECT_EQ(peek.remaining, 18u);
        EXPECT_EQ(peek.reset, next.reset);
    }
}

// Numbers that no reply of Redis leads to do no harm.
TEST(LocalRecord, OfASlidingWindowStaysWithinBounds) {
    const Quota quota{
        .algorithm = Algorithm::sliding_window, .window = longest_window, .limit = largest_number};
    Host host(begin);
    host.record(quota, {.remaining = 0, .next_unit = 1us, .reset = 1us}, begin);
    EXPECT_EQ(host.ask(asking(quota, 0), begin),
              (Verdict{.remaining = largest_number - 1, .next_unit = 1us, .reset = 1us}));
}

// Such numbers come of a key that holds what no script wrote: one unit comes back after all of
// them.
TEST(LocalRecord, OfASlidingLogForgetsNothingByOtherNumbers) {
    const Quota quota{.window = 10s, .limit = largest_limit(Algorithm::sliding_log)};
    Host host(begin);
    for (int i = 0; i < 5; ++i) {
        host.record(quota, {.remaining = 0, .next_unit = 1h, .reset = 1s}, begin);
        EXPECT_EQ(host.ask(asking(quota, 0), begin).remaining, 0u);
    }
}

// The windows of Redis then end later, by as much as its clock stepped back.
TEST(LocalRecord, ForgetsNothingWhereTheClockOfRedisSteppedBack) {
    for (const Algorithm algorithm : {Algorithm::fixed_window, Algorithm::sliding_log}) {
        const Quota quota = twenty(algorithm);
        Host host(begin);
        host.ask(asking(quota, 15), begin);
        host.record(quota, {.remaining = 17, .next_unit = 1h, .reset = 1h}, begin + second);
        EXPECT_LE(host.ask(asking(quota, 0), begin + second).remaining, 5u);
        EXPECT_LE(host.ask(asking(quota, 0), begin + 10 * second - 1).remaining, 5u);
        EXPECT_EQ(host.ask(asking(quota, 0), begin + 3602 * second).remaining, 20u);
    }
}

// In Redis another window has begun, while the one before goes on here.
TEST(LocalRecord, OfASlidingWindowForgetsNothingWhereClocksDiffer) {
    const Quota quota = twenty(Algorithm::sliding_window);
    Host host(begin);
    host.ask(asking(quota, 12), begin);
    host.ask(asking(quota, 4), begin + 15 * second);
    ASSERT_EQ(host.ask(asking(quota, 0), begin + 15 * second).remaining, 10u);
    host.record(quota, {.remaining = 19, .next_unit = 20s, .reset = 20s}, begin + 15 * second);
    EXPECT_EQ(host.ask(asking(quota, 0), begin + 15 * second).remaining, 10u);
    EXPECT_LE(host.ask(asking(quota, 0), begin + 20 * second).remaining, 16u);

    Host other(begin);
    other.ask(asking(quota, 20), begin);
    other.record(quota, {.remaining = 19, .next_unit = 20s, .reset = 20s}, begin + 16 * second);
    EXPECT_EQ(other.ask(asking(quota, 0), begin + 16 * second).remaining, 12u);
}

// The check of the new window's first verdict was sent before the end of the window before, as that
// end is known here.
TEST(LocalRecord, OfANewWindowIsNotOfTheOneBefore) {
    const Quota quota = twenty(Algorithm::fixed_window);
    Redis redis(quota.algorithm, false);
    Host host(begin);
    host.record(quota, redis.ask(asking(quota, 20), begin), begin);
    const int64_t next = begin + 10 * second;
    host.record(quota, redis.ask(quota, next), next, 100, second);
    EXPECT_EQ(host.ask(asking(quota, 0), next - 1).remaining, 19u);
    EXPECT_EQ(host.ask(asking(quota, 0), next + 8 * second).remaining, 19u);
}

TEST(LocalRecord, OfAWindowBesideTheOneHereIsOfBoth) {
    const Quota quota = twenty(Algorithm::fixed_window);
    Redis redis(quota.algorithm, false);
    Host host(begin);
    host.ask(asking(quota, 15), begin);
    host.record(quota, redis.ask(asking(quota, 3), begin + 5 * second), begin + 5 * second);
    const Verdict peek = host.ask(asking(quota, 0), begin + 5 * second);
    EXPECT_EQ(peek, (Verdict{.remaining = 5, .next_unit = 10s, .reset = 10s}));
}

TEST(LocalRecord, OfAWindowAfterOneThatEndedIsAllThereIs) {
    const Quota quota = twenty(Algorithm::fixed_window);
    const Host host(begin);
    const auto ended = decide_locally({}, asking(quota, 15), false, host.at(begin)).after;
    const Verdict other{
        .remaining = 17, .next_unit = 4s, .reset = 4s}; // of a window that began before
    const int64_t now = begin + 10 * second;
    const auto recorded = record_verdict(ended, quota, other, 100, host.at(now).monotonic);
    EXPECT_EQ(decide_locally(recorded, asking(quota, 0), false, host.at(now)).verdict, other);
}

// A unit that comes back between two of the log's times counts here for a while longer, and another
// host may have taken it again.
TEST(LocalRecord, OfASlidingLogIsOfWhatOtherHostsTookInstead) {
    const Quota quota = twenty(Algorithm::sliding_log);
    Redis redis(quota.algorithm);
    Host host(begin);
    host.record(quota, redis.ask(quota, begin), begin);
    const Verdict rest = redis.ask(asking(quota, 19), begin + 1000);
    host.record(asking(quota, 19), rest, begin + 1000); // known to come back 1.25 s later
    redis.ask(asking(quota, 20), begin + 10 * second + 1000);
    const int64_t now = begin + 10 * second + 2000;
    host.record(quota, redis.ask(quota, now), now);
    EXPECT_EQ(host.ask(quota, begin + 20 * second).decision, Decision::denied);
    EXPECT_EQ(host.ask(quota, begin + 22 * second).decision, Decision::granted);
}

TEST(LocalRecord, OfASlidingLogIsOfAPartOfTheCost) {
    Quota quota = twenty(Algorithm::sliding_log);
    quota.limit = 100;
    Redis redis(quota.algorithm);
    Host host(begin);
    const auto ask = [&](uint64_t cost, int64_t time) {
        host.record(asking(quota, cost), redis.ask(asking(quota, cost), time), time, 10);
    };
    ask(1, begin);
    ask(20, begin + second / 10);
    ask(20, begin + second / 2);
    ask(10, begin + 10 * second + second / 4); // these take the place of the first 20
    const Quota part = asking(scaled(quota, 10), 0);
    EXPECT_EQ(host.ask(part, begin + 11 * second).remaining, 6u);
    EXPECT_EQ(host.ask(part, begin + 12 * second).remaining, 9u); // one of them was among the last
}

// Nothing is known of the window before: all units are taken to be of the current one.
TEST(LocalRecord, OfASlidingWindowComesBackLateWhereNothingIsKnown) {
    const Quota quota = twenty(Algorithm::sliding_window);
    Redis redis(quota.algorithm);
    Host host(begin);
    redis.ask(asking(quota, 10), begin);
    const int64_t middle = begin + 15 * second;
    const Verdict verdict = redis.ask(asking(quota, 5), middle);
    ASSERT_EQ(verdict.remaining, 10u); // 5 are of the window before
    host.record(quota, verdict, middle);
    EXPECT_EQ(redis.ask(asking(quota, 0), begin + 20 * second).remaining, 15u);
    EXPECT_EQ(host.ask(asking(quota, 0), begin + 20 * second).remaining, 10u);
    EXPECT_EQ(host.ask(asking(quota, 0), begin + 30 * second).remaining, 20u);
}

// The limit was lowered while more was taken.
TEST(LocalRecord, OfABucketLeavesWhatIsAboveItsCapacity) {
    Quota quota = twenty(Algorithm::token_bucket);
    Redis redis(quota.algorithm);
    Host host(begin);
    redis.ask(asking(quota, 20), begin);
    quota.burst = 5;
    const Verdict denied = redis.ask(quota, begin);
    host.record(quota, denied, begin);
    EXPECT_EQ(host.ask(quota, begin), denied);
}

// Concurrency

Verdict granted_with(uint64_t remaining) {
    return {.remaining = remaining, .reset = 1s};
}

TEST(LocalRecord, OfAPermitCountsTheOneTaken) {
    const Quota quota = asking(twenty(Algorithm::concurrency), 2);
    Host host;
    host.record(quota, granted_with(3), 0); // 15 are of other hosts
    EXPECT_EQ(host.ask(asking(quota, 0), 0).remaining, 18u);
    host.record(quota, granted_with(1), 1,
                10); // the request's own count in full, whatever this host's part
    EXPECT_EQ(host.ask(asking(quota, 0), 1).remaining, 16u);
    EXPECT_FALSE(record_verdict(host.known(2), asking(quota, 0), granted_with(1), 100, 2us));
    host.record(quota, {.decision = Decision::denied, .retry_after = 1s, .reset = 1s}, 3);
    EXPECT_EQ(host.ask(asking(quota, 0), 3).remaining, 16u);
    host.keep(release_permits(host.known(4), quota, host.at(0).monotonic, host.at(4).monotonic));
    EXPECT_EQ(host.ask(asking(quota, 0), 4).remaining, 18u);
}

TEST(LocalRecord, OfAPermitThatWasAskedForBeforeKeepsTheOthersAsLong) {
    const Quota quota = twenty(Algorithm::concurrency);
    Host host;
    host.ask(quota, second);
    host.record(quota, granted_with(18), second, 100, second / 2);
    EXPECT_EQ(host.ask(asking(quota, 0), 11 * second - 1).remaining, 18u);
    EXPECT_EQ(host.ask(asking(quota, 0), 11 * second).remaining, 20u);
}

// Verdicts of one burst may be recorded in any order, and Redis knows nothing of what was granted
// here.
TEST(LocalRecord, OfAPermitLeavesTheOthers) {
    const Quota quota = twenty(Algorithm::concurrency);
    Host host;
    for (int i = 0; i < 7; ++i) {
        host.ask(quota, i);
    }
    host.record(quota, granted_with(16), 7);
    host.record(quota, granted_with(17), 7);
    EXPECT_EQ(host.ask(asking(quota, 0), 7).remaining, 11u);
}

} // namespace
} // namespace rate_limit
