// What this host records of verdicts of Redis: tests that hold for each algorithm.

#include "local_record_test.hpp"

#include "unit/rate_limit/algorithms.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace rate_limit {
namespace {

using model::described;
using std::chrono::microseconds;

class LocalRecordTest : public testing::TestWithParam<Algorithm> {
  protected:
    Quota any_quota() {
        return traffic_.one_in(2) ? traffic_.quota(GetParam()) : traffic_.small_quota(GetParam());
    }

    /// The time until the next request.
    void go_on(Quota &quota, int64_t &now, const Verdict &last) {
        now += std::max<int64_t>(traffic_.step(quota, last), 0);
        quota.cost = traffic_.cost(quota, last);
    }

    Quota quota_ = twenty(GetParam());
    Redis redis_{GetParam()};
    Host host_{begin};
    model::Traffic traffic_ = make_traffic();
};

INSTANTIATE_TEST_SUITE_P(Each, LocalRecordTest, testing::ValuesIn(all_but_concurrency),
                         [](const auto &info) { return std::string(to_string(info.param)); });

TEST_P(LocalRecordTest, IsWhatRedisSaid) {
    const Verdict first = redis_.ask(asking(quota_, 6), begin);
    host_.record(asking(quota_, 6), first, begin);
    EXPECT_EQ(host_.ask(asking(quota_, 0), begin, true), redis_.ask(asking(quota_, 0), begin));
    const Verdict next = redis_.ask(asking(quota_, 10), begin + second);
    host_.record(asking(quota_, 10), next, begin + second);
    const Verdict peek = host_.ask(asking(quota_, 0), begin + second, true);
    EXPECT_EQ(peek.remaining, next.remaining);
    const Verdict here = host_.ask(asking(quota_, 9), begin + second, true);
    const Verdict there = redis_.ask(asking(quota_, 9), begin + second);
    EXPECT_EQ(here.decision, there.decision);
    EXPECT_GE(here.retry_after, there.retry_after);
    EXPECT_LT(here.retry_after, there.retry_after + microseconds(quota_.window) / 8);
}

TEST_P(LocalRecordTest, IsNothingWhereNothingIsTaken) {
    const Verdict peek = redis_.ask(asking(quota_, 0), begin);
    EXPECT_FALSE(record_verdict({}, asking(quota_, 0), peek, 100, host_.at(begin).monotonic));
    const Verdict never = redis_.ask(asking(quota_, 21), begin);
    EXPECT_FALSE(record_verdict({}, asking(quota_, 21), never, 100, host_.at(begin).monotonic));
}

// Such a verdict comes of a key that holds what no script wrote. While time stands still, it would
// be out of range.
TEST_P(LocalRecordTest, IsNothingOfTimesBeyondAllRules) {
    const microseconds beyond{int64_t{1} << 53};
    EXPECT_FALSE(record_verdict({}, quota_, {.remaining = 3, .next_unit = 1s, .reset = beyond}, 100,
                                host_.at(begin).monotonic));
}

TEST_P(LocalRecordTest, OfADenialIsWhatRedisSaid) {
    redis_.ask(asking(quota_, 20), begin);
    const Verdict denied = redis_.ask(quota_, begin + second / 4);
    host_.record(quota_, denied, begin + second / 4);
    const Verdict here = host_.ask(quota_, begin + second / 4, true);
    EXPECT_EQ(here.decision, Decision::denied);
    EXPECT_EQ(here.retry_after, denied.retry_after);
    EXPECT_EQ(here.reset, denied.reset);
}

TEST_P(LocalRecordTest, DoesNotForgetWhatWasGrantedHere) {
    ASSERT_EQ(host_.ask(asking(quota_, 20), begin, true).decision, Decision::granted);
    for (int i = 1; i <= 5; ++i) {
        const int64_t now = begin + i * 1000;
        host_.record(quota_, redis_.ask(quota_, now), now);
        EXPECT_EQ(host_.ask(quota_, now, true).decision, Decision::denied);
    }
}

TEST_P(LocalRecordTest, ThatComesLateChangesNothing) {
    const Verdict first = redis_.ask(asking(quota_, 15), begin);
    const Verdict next = redis_.ask(asking(quota_, 3), begin + second / 10);
    host_.record(asking(quota_, 3), next, begin + second / 10);
    const Verdict before = host_.ask(asking(quota_, 0), begin + second / 10, true);
    host_.record(asking(quota_, 15), first, begin + second / 10, 100, second / 10);
    EXPECT_EQ(host_.ask(asking(quota_, 0), begin + second / 10, true), before);
}

TEST_P(LocalRecordTest, OfThePartOfAHostIsScaled) {
    const Verdict first = redis_.ask(asking(quota_, 9), begin);
    host_.record(asking(quota_, 9), first, begin, 50);
    const Quota part = scaled(quota_, 50);
    ASSERT_EQ(part.capacity(), 10u);
    EXPECT_EQ(host_.ask(asking(part, 0), begin, true).remaining, 5u); // 4.5 are taken
    EXPECT_EQ(host_.ask(asking(part, 0), begin + 21 * second, true).remaining, 10u);
}

TEST_P(LocalRecordTest, LeavesNothingOverAfterItsTime) {
    const Verdict first = redis_.ask(asking(quota_, 20), begin + 3 * second);
    host_.record(asking(quota_, 20), first, begin + 3 * second, 100, second / 100);
    const int64_t all_there = begin + 3 * second + first.reset.count() - second / 100;
    EXPECT_EQ(host_.ask(asking(quota_, 0), all_there, true), Verdict{.remaining = 20});
}

// After one verdict alone, whatever came before it, this host denies what Redis would deny.
TEST_P(LocalRecordTest, GrantsNothingThatRedisWouldNot) {
    const bool is_exact = is_bucket(GetParam()) || GetParam() == Algorithm::fixed_window;
    int64_t granted = 0;
    int64_t denied = 0;
    for (int round = 0; round < 600; ++round) {
        Quota quota = any_quota();
        const bool aligned = traffic_.one_in(2);
        const bool is_whole = !is_bucket(GetParam()) || Interval(quota).is_whole();
        SCOPED_TRACE(described(quota) + ", round " + std::to_string(round));
        Redis redis(GetParam(), aligned);
        int64_t now = begin + traffic_.between(0, 1000 * second);
        Host host(now);
        Verdict last{.remaining = quota.capacity()};
        for (int64_t step = traffic_.between(1, 60); step > 0; --step) {
            go_on(quota, now, last);
            last = redis.ask(quota, now);
        }
        host.record(quota, last, now);
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
            } else if (is_exact && fits) { // it may differ by less than a microsecond
                ASSERT_EQ(last.retry_after, 1us) << "step " << step;
            }
            ++(is_granted ? granted : denied);
        }
    }
    EXPECT_GT(granted, 5'000);
    EXPECT_GT(denied, 5'000);
}

/// How many more units than are used a host that saw all verdicts may take to be used.
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

// After all verdicts, one after another, this host goes on as Redis would.
TEST_P(LocalRecordTest, GivesNoFreshQuota) {
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
            host.record(quota, last, now);
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

// This host sees some of the verdicts, and knows their times to a round trip. Others see the rest.
TEST_P(LocalRecordTest, GivesTheCapacityOnceMoreAtMost) {
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
                host.record(quota, last, now, 100, sent_before);
                const Verdict peek = host.ask(asking(quota, 0), now - sent_before, true);
                ASSERT_LE(peek.remaining, last.remaining) << "step " << step;
            }
        }
        if (quota.algorithm == Algorithm::fixed_window ||
            quota.algorithm == Algorithm::sliding_window) {
            continue; // their windows differ from the model's by a round trip
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

} // namespace
} // namespace rate_limit
