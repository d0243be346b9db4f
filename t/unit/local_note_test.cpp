// What the local fallback knows of what Redis granted. A model stands for Redis.

#include "local_test.hpp"

#include "algorithms.hpp"
#include "model/models.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;
using model::described;
using std::chrono::microseconds;

/// 20 in 10 seconds, and at once.
Quota twenty(Algorithm algorithm) {
    Quota quota{.algorithm = algorithm, .window = 10s, .limit = 20};
    if (is_bucket(algorithm)) {
        quota.burst = algorithm == Algorithm::token_bucket ? 20 : 19;
    }
    return quota;
}

class Redis {
  public:
    Redis(Algorithm algorithm, bool aligned) : model_(model::model_of(algorithm, aligned)) {}
    explicit Redis(Algorithm algorithm) : Redis(algorithm, true) {}

    Verdict ask(const Quota &quota, int64_t time) {
        const bool fits = model_->fits(quota, time);
        if (fits) {
            model_->take(quota, time);
        }
        return model_->verdict(quota, time, fits, fits);
    }
    bool fits(const Quota &quota, int64_t time) const { return model_->fits(quota, time); }

  private:
    std::unique_ptr<model::Model> model_;
};

class LocalNoteTest : public testing::TestWithParam<Algorithm> {
  protected:
    Quota any_quota() {
        return traffic_.one_in(2) ? traffic_.quota(GetParam()) : traffic_.small_quota(GetParam());
    }

    /// To the next request.
    void go_on(Quota &quota, int64_t &now, const Verdict &last) {
        now += std::max<int64_t>(traffic_.step(quota, last), 0);
        quota.cost = traffic_.cost(quota, last);
    }

    Quota quota_ = twenty(GetParam());
    Redis redis_{GetParam()};
    Host host_{begin};
    model::Traffic traffic_ = make_traffic();
};

INSTANTIATE_TEST_SUITE_P(Each, LocalNoteTest, testing::ValuesIn(all_but_concurrency),
                         [](const auto &info) { return std::string(to_string(info.param)); });

TEST_P(LocalNoteTest, IsWhatRedisSaid) {
    const Verdict first = redis_.ask(asking(quota_, 6), begin);
    host_.note(asking(quota_, 6), first, begin);
    EXPECT_EQ(host_.ask(asking(quota_, 0), begin, true), redis_.ask(asking(quota_, 0), begin));
    const Verdict next = redis_.ask(asking(quota_, 10), begin + second);
    host_.note(asking(quota_, 10), next, begin + second);
    const Verdict peek = host_.ask(asking(quota_, 0), begin + second, true);
    EXPECT_EQ(peek.remaining, next.remaining);
    const Verdict here = host_.ask(asking(quota_, 9), begin + second, true);
    const Verdict there = redis_.ask(asking(quota_, 9), begin + second);
    EXPECT_EQ(here.decision, there.decision);
    EXPECT_GE(here.retry_after, there.retry_after);
    EXPECT_LT(here.retry_after, there.retry_after + microseconds(quota_.window) / 8);
}

TEST_P(LocalNoteTest, IsNothingWhereNothingIsTaken) {
    const Verdict peek = redis_.ask(asking(quota_, 0), begin);
    EXPECT_FALSE(note_verdict({}, asking(quota_, 0), peek, 100, host_.at(begin).monotonic));
    const Verdict never = redis_.ask(asking(quota_, 21), begin);
    EXPECT_FALSE(note_verdict({}, asking(quota_, 21), never, 100, host_.at(begin).monotonic));
}

// As of a key that holds what no script wrote: where time stands still, it would be out of range.
TEST_P(LocalNoteTest, IsNothingOfTimesBeyondAllRules) {
    const microseconds beyond{int64_t{1} << 53};
    EXPECT_FALSE(note_verdict({}, quota_, {.remaining = 3, .next_unit = 1s, .reset = beyond}, 100,
                              host_.at(begin).monotonic));
}

TEST_P(LocalNoteTest, OfADenialIsWhatRedisSaid) {
    redis_.ask(asking(quota_, 20), begin);
    const Verdict denied = redis_.ask(quota_, begin + second / 4);
    host_.note(quota_, denied, begin + second / 4);
    const Verdict here = host_.ask(quota_, begin + second / 4, true);
    EXPECT_EQ(here.decision, Decision::denied);
    EXPECT_EQ(here.retry_after, denied.retry_after);
    EXPECT_EQ(here.reset, denied.reset);
}

TEST_P(LocalNoteTest, DoesNotForgetWhatWasGrantedHere) {
    ASSERT_EQ(host_.ask(asking(quota_, 20), begin, true).decision, Decision::granted);
    for (int i = 1; i <= 5; ++i) {
        const int64_t now = begin + i * 1000;
        host_.note(quota_, redis_.ask(quota_, now), now);
        EXPECT_EQ(host_.ask(quota_, now, true).decision, Decision::denied);
    }
}

TEST_P(LocalNoteTest, ThatComesLateChangesNothing) {
    const Verdict first = redis_.ask(asking(quota_, 15), begin);
    const Verdict next = redis_.ask(asking(quota_, 3), begin + second / 10);
    host_.note(asking(quota_, 3), next, begin + second / 10);
    const Verdict before = host_.ask(asking(quota_, 0), begin + second / 10, true);
    host_.note(asking(quota_, 15), first, begin + second / 10, 100, second / 10);
    EXPECT_EQ(host_.ask(asking(quota_, 0), begin + second / 10, true), before);
}

TEST_P(LocalNoteTest, OfThePartOfAHostIsScaled) {
    const Verdict first = redis_.ask(asking(quota_, 9), begin);
    host_.note(asking(quota_, 9), first, begin, 50);
    const Quota part = scaled(quota_, 50);
    ASSERT_EQ(part.capacity(), 10u);
    EXPECT_EQ(host_.ask(asking(part, 0), begin, true).remaining, 5u); // of 4.5 taken
    EXPECT_EQ(host_.ask(asking(part, 0), begin + 21 * second, true).remaining, 10u);
}

TEST_P(LocalNoteTest, LeavesNothingOverAfterItsTime) {
    const Verdict first = redis_.ask(asking(quota_, 20), begin + 3 * second);
    host_.note(asking(quota_, 20), first, begin + 3 * second, 100, second / 100);
    const int64_t all_there = begin + 3 * second + first.reset.count() - second / 100;
    EXPECT_EQ(host_.ask(asking(quota_, 0), all_there, true), Verdict{.remaining = 20});
}

// Of one verdict alone, whatever came before: what Redis would deny is denied.
TEST_P(LocalNoteTest, GrantsNothingThatRedisWouldNot) {
    const bool is_exact = is_bucket(GetParam()) || GetParam() == Algorithm::fixed_window;
    int64_t granted = 0;
    int64_t denied = 0;
    for (int round = 0; round < 600; ++round) {
        Quota quota = any_quota();
        const bool aligned = traffic_.one_in(2);
        const bool is_whole = !is_bucket(GetParam()) || Interval(quota).parts == 1;
        SCOPED_TRACE(described(quota) + ", round " + std::to_string(round));
        Redis redis(GetParam(), aligned);
        int64_t now = begin + traffic_.between(0, 1000 * second);
        Host host(now);
        Verdict last{.remaining = quota.capacity()};
        for (int64_t step = traffic_.between(1, 60); step > 0; --step) {
            go_on(quota, now, last);
            last = redis.ask(quota, now);
        }
        host.note(quota, last, now);
        for (int step = 0; step < 40; ++step) {
            go_on(quota, now, last);
            const bool fits = redis.fits(quota, now);
            last = host.ask(quota, now, aligned);
            const bool is_granted = last.decision == Decision::granted;
            ASSERT_TRUE(!is_granted || fits) << "step " << step;
            if (is_exact && is_whole) {
                ASSERT_EQ(last, redis.ask(quota, now)) << "step " << step;
            } else if (is_granted) {
                redis.ask(quota, now);
            } else if (is_exact && fits) { // by less than a microsecond
                ASSERT_EQ(last.retry_after, 1us) << "step " << step;
            }
            ++(is_granted ? granted : denied);
        }
    }
    EXPECT_GT(granted, 5'000);
    EXPECT_GT(denied, 5'000);
}

/// How much more may be taken to be used than is, by a host that saw all verdicts.
void expect_near(const Quota &quota, Host &host, int64_t now, bool aligned, const Verdict &last) {
    const Quota peek = asking(quota, 0);
    const int64_t step = microseconds(quota.window).count() / 8;
    switch (quota.algorithm) {
    case Algorithm::fixed_window:
        ASSERT_EQ(host.ask(peek, now, aligned).remaining, last.remaining);
        break;
    case Algorithm::sliding_window:
        ASSERT_GE(host.ask(peek, now, aligned).remaining + 2, last.remaining);
        break;
    case Algorithm::sliding_log:
        ASSERT_GE(host.ask(peek, now + step, aligned).remaining, last.remaining);
        break;
    default:
        ASSERT_LE(host.ask(peek, now, aligned).reset, last.reset + 1us);
    }
}

// Of all verdicts, one after another: on this host it goes on as in Redis.
TEST_P(LocalNoteTest, GivesNoFreshQuota) {
    int64_t granted = 0;
    for (int round = 0; round < 400; ++round) {
        Quota quota = any_quota();
        const bool aligned = traffic_.one_in(2);
        SCOPED_TRACE(described(quota) + ", round " + std::to_string(round));
        Redis redis(GetParam(), aligned);
        int64_t now = begin + traffic_.between(0, 1000 * second);
        Host host(now);
        Verdict last{.remaining = quota.capacity()};
        for (int64_t step = traffic_.between(1, 200); step > 0; --step) {
            go_on(quota, now, last);
            last = redis.ask(quota, now);
            host.note(quota, last, now);
            ASSERT_LE(host.ask(asking(quota, 0), now, aligned).remaining, last.remaining);
            ASSERT_NO_FATAL_FAILURE(expect_near(quota, host, now, aligned, last));
        }
        for (int step = 0; step < 60; ++step) {
            go_on(quota, now, last);
            Quota asked = quota;
            if (quota.algorithm == Algorithm::sliding_window && quota.cost > 0) {
                --asked.cost; // it may be one unit more than in Redis
            }
            const bool fits = redis.fits(asked, now);
            last = host.ask(quota, now, aligned);
            if (last.decision == Decision::granted) {
                ASSERT_TRUE(fits) << "step " << step;
                redis.ask(asked, now);
                ++granted;
            }
        }
    }
    EXPECT_GT(granted, 5'000);
}

// Of some verdicts, each known to a round trip: other hosts have the rest.
TEST_P(LocalNoteTest, GivesTheCapacityOnceMoreAtMost) {
    for (int round = 0; round < 400; ++round) {
        Quota quota = traffic_.small_quota(GetParam());
        SCOPED_TRACE(described(quota) + ", round " + std::to_string(round));
        Redis redis(GetParam());
        int64_t now = begin + traffic_.between(0, 1000 * second);
        Host host(now - microseconds(quota.window).count());
        Verdict last{.remaining = quota.capacity()};
        for (int64_t step = traffic_.between(1, 200); step > 0; --step) {
            go_on(quota, now, last);
            last = redis.ask(quota, now);
            if (traffic_.one_in(2)) {
                const int64_t sent_before =
                    traffic_.between(0, microseconds(quota.window).count() / 16);
                host.note(quota, last, now, 100, sent_before);
                const Verdict peek = host.ask(asking(quota, 0), now - sent_before, true);
                ASSERT_LE(peek.remaining, last.remaining) << "step " << step;
            }
        }
        if (quota.algorithm == Algorithm::fixed_window ||
            quota.algorithm == Algorithm::sliding_window) {
            continue; // their windows are not the model's, by a round trip
        }
        Redis anew(GetParam());
        for (int step = 0; step < 60; ++step) {
            go_on(quota, now, last);
            const bool fits = anew.fits(quota, now);
            last = host.ask(quota, now, true);
            if (last.decision == Decision::granted) {
                ASSERT_TRUE(fits) << "step " << step;
                anew.ask(quota, now);
            }
        }
    }
}

TEST(LocalNote, OfTheWindowBeforeChangesNothing) {
    for (const Algorithm algorithm : {Algorithm::fixed_window, Algorithm::sliding_window}) {
        const Quota quota = twenty(algorithm);
        Redis redis(algorithm);
        Host host(begin);
        const Verdict late = redis.ask(asking(quota, 18), begin + 5 * second);
        const int64_t now = begin + 24 * second;
        host.note(asking(quota, 3), redis.ask(asking(quota, 3), now), now);
        const Verdict before = host.ask(asking(quota, 0), now, true);
        host.note(asking(quota, 18), late, now, 100, 19 * second);
        EXPECT_EQ(host.ask(asking(quota, 0), now, true), before);
    }
}

TEST(LocalNote, EndsAWindowNoEarlierThanWasKnown) {
    for (const Algorithm algorithm : {Algorithm::fixed_window, Algorithm::sliding_window}) {
        const Quota quota = twenty(algorithm);
        Redis redis(algorithm);
        Host host(begin);
        host.note(quota, redis.ask(quota, begin), begin);
        const Verdict next = redis.ask(quota, begin + second);
        host.note(quota, next, begin + second, 100, second / 10);
        const Verdict peek = host.ask(asking(quota, 0), begin + second, true);
        EXPECT_EQ(peek.remaining, 18u);
        EXPECT_EQ(peek.reset, next.reset);
    }
}

// Numbers that no Redis tells do no harm.
TEST(LocalNote, OfASlidingWindowStaysWithinBounds) {
    const Quota quota{
        .algorithm = Algorithm::sliding_window, .window = longest_window, .limit = largest_number};
    Host host(begin);
    host.note(quota, {.remaining = 0, .next_unit = 1us, .reset = 1us}, begin);
    EXPECT_EQ(host.ask(asking(quota, 0), begin),
              (Verdict{.remaining = largest_number - 1, .next_unit = 1us, .reset = 1us}));
}

// As of a key that holds what no script wrote: units that come back after all have.
TEST(LocalNote, OfASlidingLogForgetsNothingByOtherNumbers) {
    const Quota quota{.window = 10s, .limit = largest_limit(Algorithm::sliding_log)};
    Host host(begin);
    for (int i = 0; i < 5; ++i) {
        host.note(quota, {.remaining = 0, .next_unit = 1h, .reset = 1s}, begin);
        EXPECT_EQ(host.ask(asking(quota, 0), begin).remaining, 0u);
    }
}

// Redis's windows end later by the way back.
TEST(LocalNote, ForgetsNothingWhereTheClockOfRedisSteppedBack) {
    for (const Algorithm algorithm : {Algorithm::fixed_window, Algorithm::sliding_log}) {
        const Quota quota = twenty(algorithm);
        Host host(begin);
        host.ask(asking(quota, 15), begin);
        host.note(quota, {.remaining = 17, .next_unit = 1h, .reset = 1h}, begin + second);
        EXPECT_LE(host.ask(asking(quota, 0), begin + second).remaining, 5u);
        EXPECT_LE(host.ask(asking(quota, 0), begin + 10 * second - 1).remaining, 5u);
        EXPECT_EQ(host.ask(asking(quota, 0), begin + 3602 * second).remaining, 20u);
    }
}

// Another window has begun there while one goes on here.
TEST(LocalNote, OfASlidingWindowForgetsNothingWhereClocksDiffer) {
    const Quota quota = twenty(Algorithm::sliding_window);
    Host host(begin);
    host.ask(asking(quota, 12), begin);
    host.ask(asking(quota, 4), begin + 15 * second);
    ASSERT_EQ(host.ask(asking(quota, 0), begin + 15 * second).remaining, 10u);
    host.note(quota, {.remaining = 19, .next_unit = 20s, .reset = 20s}, begin + 15 * second);
    EXPECT_EQ(host.ask(asking(quota, 0), begin + 15 * second).remaining, 10u);
    EXPECT_LE(host.ask(asking(quota, 0), begin + 20 * second).remaining, 16u);

    Host other(begin);
    other.ask(asking(quota, 20), begin);
    other.note(quota, {.remaining = 19, .next_unit = 20s, .reset = 20s}, begin + 16 * second);
    EXPECT_EQ(other.ask(asking(quota, 0), begin + 16 * second).remaining, 12u);
}

// Its first verdict was asked for before the end of the window before, as it is known here.
TEST(LocalNote, OfANewWindowIsNotOfTheOneBefore) {
    const Quota quota = twenty(Algorithm::fixed_window);
    Redis redis(quota.algorithm, false);
    Host host(begin);
    host.note(quota, redis.ask(asking(quota, 20), begin), begin);
    const int64_t next = begin + 10 * second;
    host.note(quota, redis.ask(quota, next), next, 100, second);
    EXPECT_EQ(host.ask(asking(quota, 0), next - 1).remaining, 19u);
    EXPECT_EQ(host.ask(asking(quota, 0), next + 8 * second).remaining, 19u);
}

TEST(LocalNote, OfAWindowBesideTheOneHereIsOfBoth) {
    const Quota quota = twenty(Algorithm::fixed_window);
    Redis redis(quota.algorithm, false);
    Host host(begin);
    host.ask(asking(quota, 15), begin);
    host.note(quota, redis.ask(asking(quota, 3), begin + 5 * second), begin + 5 * second);
    const Verdict peek = host.ask(asking(quota, 0), begin + 5 * second);
    EXPECT_EQ(peek, (Verdict{.remaining = 5, .next_unit = 10s, .reset = 10s}));
}

TEST(LocalNote, OfAWindowAfterOneThatEndedIsAllThereIs) {
    const Quota quota = twenty(Algorithm::fixed_window);
    const Host host(begin);
    const auto ended = decide_locally({}, asking(quota, 15), false, host.at(begin)).after;
    const Verdict other{.remaining = 17, .next_unit = 4s, .reset = 4s}; // of a window begun before
    const int64_t now = begin + 10 * second;
    const auto noted = note_verdict(ended, quota, other, 100, host.at(now).monotonic);
    EXPECT_EQ(decide_locally(noted, asking(quota, 0), false, host.at(now)).verdict, other);
}

// What comes back between two of the log's times is still known here while others take it again.
TEST(LocalNote, OfASlidingLogIsOfWhatOtherHostsTookInstead) {
    const Quota quota = twenty(Algorithm::sliding_log);
    Redis redis(quota.algorithm);
    Host host(begin);
    host.note(quota, redis.ask(quota, begin), begin);
    const Verdict rest = redis.ask(asking(quota, 19), begin + 1000);
    host.note(asking(quota, 19), rest, begin + 1000); // known to come back 1.25 s later
    redis.ask(asking(quota, 20), begin + 10 * second + 1000);
    const int64_t now = begin + 10 * second + 2000;
    host.note(quota, redis.ask(quota, now), now);
    EXPECT_EQ(host.ask(quota, begin + 20 * second).decision, Decision::denied);
    EXPECT_EQ(host.ask(quota, begin + 22 * second).decision, Decision::granted);
}

TEST(LocalNote, OfASlidingLogIsOfAPartOfTheCost) {
    Quota quota = twenty(Algorithm::sliding_log);
    quota.limit = 100;
    Redis redis(quota.algorithm);
    Host host(begin);
    const auto ask = [&](uint64_t cost, int64_t time) {
        host.note(asking(quota, cost), redis.ask(asking(quota, cost), time), time, 10);
    };
    ask(1, begin);
    ask(20, begin + second / 10);
    ask(20, begin + second / 2);
    ask(10, begin + 10 * second + second / 4); // instead of the first 20
    const Quota part = asking(scaled(quota, 10), 0);
    EXPECT_EQ(host.ask(part, begin + 11 * second).remaining, 6u);
    EXPECT_EQ(host.ask(part, begin + 12 * second).remaining, 9u); // one was of the last
}

// Nothing of the window before is known: all is taken to be of the current one.
TEST(LocalNote, OfASlidingWindowComesBackLateWhereNothingIsKnown) {
    const Quota quota = twenty(Algorithm::sliding_window);
    Redis redis(quota.algorithm);
    Host host(begin);
    redis.ask(asking(quota, 10), begin);
    const int64_t middle = begin + 15 * second;
    const Verdict verdict = redis.ask(asking(quota, 5), middle);
    ASSERT_EQ(verdict.remaining, 10u); // 5 of the window before
    host.note(quota, verdict, middle);
    EXPECT_EQ(redis.ask(asking(quota, 0), begin + 20 * second).remaining, 15u);
    EXPECT_EQ(host.ask(asking(quota, 0), begin + 20 * second).remaining, 10u);
    EXPECT_EQ(host.ask(asking(quota, 0), begin + 30 * second).remaining, 20u);
}

// The limit was lowered while more was taken.
TEST(LocalNote, OfABucketLeavesWhatIsAboveItsCapacity) {
    Quota quota = twenty(Algorithm::token_bucket);
    Redis redis(quota.algorithm);
    Host host(begin);
    redis.ask(asking(quota, 20), begin);
    quota.burst = 5;
    const Verdict denied = redis.ask(quota, begin);
    host.note(quota, denied, begin);
    EXPECT_EQ(host.ask(quota, begin), denied);
}

// Concurrency

Verdict granted_with(uint64_t remaining) {
    return {.remaining = remaining, .reset = 1s};
}

TEST(LocalNote, OfASlotCountsTheOneTaken) {
    const Quota quota = asking(twenty(Algorithm::concurrency), 2);
    Host host;
    host.note(quota, granted_with(3), 0); // 15 are of other hosts
    EXPECT_EQ(host.ask(asking(quota, 0), 0).remaining, 18u);
    host.note(quota, granted_with(1), 1, 10); // whatever the part of this host
    EXPECT_EQ(host.ask(asking(quota, 0), 1).remaining, 16u);
    EXPECT_FALSE(note_verdict(host.known(2), asking(quota, 0), granted_with(1), 100, 2us));
    host.note(quota, {.decision = Decision::denied, .retry_after = 1s, .reset = 1s}, 3);
    EXPECT_EQ(host.ask(asking(quota, 0), 3).remaining, 16u);
    host.keep(release_slots(host.known(4), quota, host.at(0).monotonic, host.at(4).monotonic));
    EXPECT_EQ(host.ask(asking(quota, 0), 4).remaining, 18u);
}

TEST(LocalNote, OfASlotThatWasAskedForBeforeKeepsTheOthersAsLong) {
    const Quota quota = twenty(Algorithm::concurrency);
    Host host;
    host.ask(quota, second);
    host.note(quota, granted_with(18), second, 100, second / 2);
    EXPECT_EQ(host.ask(asking(quota, 0), 11 * second - 1).remaining, 18u);
    EXPECT_EQ(host.ask(asking(quota, 0), 11 * second).remaining, 20u);
}

// A worker died, and what it had in flight fell free in Redis.
// Verdicts of one burst may be noted in any order, and Redis knows nothing of what was granted
// here.
TEST(LocalNote, OfASlotLeavesTheOthers) {
    const Quota quota = twenty(Algorithm::concurrency);
    Host host;
    for (int i = 0; i < 7; ++i) {
        host.ask(quota, i);
    }
    host.note(quota, granted_with(16), 7);
    host.note(quota, granted_with(17), 7);
    EXPECT_EQ(host.ask(asking(quota, 0), 7).remaining, 11u);
}

} // namespace
} // namespace rate_limit
