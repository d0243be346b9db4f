// Units given back: as if they had never been taken, and never more than that.

#include "charging_test.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace model {
namespace {

class RefundTest : public ChargingTest {
  protected:
    void refund(const Charge &charge) {
        const bool was_there = redis_.has(charge.redis_key);
        EXPECT_EQ(redis_.refund(charge), "");
        const State state = redis_.state(charge.redis_key);
        EXPECT_NE(state.time_to_live_ms, -1);
        EXPECT_TRUE(was_there || state.dump.empty()) << "a refund makes no key";
    }

    void random_time() {
        clock_.set(1'700'000'000'000'000 + traffic_.between(0, 1'000'000'000'000));
    }

    /// With a window of 10 s and a burst of 20.
    static Quota bucket_of(uint64_t limit) { return quota_of(limit, milliseconds(10'000), 20); }

    static bool is_near(microseconds one, microseconds other) {
        return one <= other + microseconds{1} && other <= one + microseconds{1};
    }
};

TEST_P(RefundTest, IsAsIfNothingHadBeenTaken) {
    int refunded = 0;
    for (int round = 0; round < 100; ++round) {
        const Quota quota = traffic_.quota(GetParam());
        // where an interval is no whole number of microseconds, less than one of them may stay
        // taken
        const bool is_exact =
            !rate_limit::is_bucket(GetParam()) || rate_limit::Interval(quota).is_whole();
        aligned_ = traffic_.one_in(2);
        const std::string key = "k" + std::to_string(round);
        const std::string twin = "twin" + std::to_string(round); // of which nothing is refunded
        SCOPED_TRACE(described(quota));
        random_time();
        Verdict last{.remaining = quota.capacity()};
        for (int step = 0; step < 30; ++step) {
            clock_.move(std::max<int64_t>(traffic_.step(quota, last), 0));
            const Charge charge = ask(quota, traffic_.cost(quota, last), key);
            if (charge.is_charged && charge.quota.cost > 0) {
                refund(charge);
                ++refunded;
            }
            clock_.move(std::max<int64_t>(traffic_.step(quota, charge.verdict), 0));
            const uint64_t cost = is_exact ? traffic_.cost(quota, charge.verdict) : 0;
            last = ask(quota, cost, key).verdict;
            const Verdict expected = ask(quota, cost, twin).verdict;
            if (is_exact) {
                ASSERT_TRUE(last == expected) << "step " << step;
            } else {
                ASSERT_TRUE(is_near(last.reset, expected.reset)) << "step " << step;
                const uint64_t taken = traffic_.cost(quota, last);
                const Charge here = ask(quota, taken, key);
                const Charge there = ask(quota, taken, twin);
                if (here.is_charged != there.is_charged) {
                    ASSERT_TRUE(is_near(here.verdict.retry_after, there.verdict.retry_after));
                    break;
                }
                ASSERT_TRUE(is_near(here.verdict.reset, there.verdict.reset)) << "step " << step;
            }
            if (!is_exact) {
                redis_.command({"DEL", key, twin}); // what is left would add up
            }
        }
    }
    EXPECT_GT(refunded, 500);
}

TEST_P(RefundTest, NeverGivesMoreThanWasTaken) {
    int granted = 0;
    int refunded = 0;
    for (int round = 0; round < 40; ++round) {
        const Quota quota = traffic_.small_quota(GetParam());
        aligned_ = traffic_.one_in(2);
        const std::string key = "k" + std::to_string(round);
        SCOPED_TRACE(described(quota));
        random_time();
        const auto kept = model_of(quota.algorithm, aligned_); // of what is never refunded
        std::map<int64_t, uint64_t> of_window;                 // the same, by the window's end
        std::vector<Charge> to_refund;
        Verdict last{.remaining = quota.capacity()};
        for (int step = 0; step < 150; ++step) {
            clock_.move(std::max<int64_t>(traffic_.step(quota, last), 0));
            if (rate_limit::is_bucket(GetParam()) && !redis_.has(key)) {
                to_refund.clear(); // a check ends long before its key's 5 s do
            }
            while (!to_refund.empty() && traffic_.one_in(3)) {
                const auto index = static_cast<size_t>(
                    traffic_.between(0, static_cast<int64_t>(to_refund.size()) - 1));
                refund(to_refund[index]);
                to_refund.erase(to_refund.begin() + static_cast<int64_t>(index));
                ++refunded;
            }
            const Charge charge = ask(quota, traffic_.cost(quota, last), key);
            last = charge.verdict;
            if (!charge.is_charged || charge.quota.cost == 0) {
                continue;
            }
            if (traffic_.one_in(2)) {
                to_refund.push_back(charge);
                continue;
            }
            ++granted;
            if (quota.algorithm == Algorithm::fixed_window) { // its windows may begin earlier
                const int64_t end = clock_.now() + last.reset.count();
                of_window[end] += charge.quota.cost;
                ASSERT_LE(of_window[end], quota.limit) << "step " << step;
            } else {
                ASSERT_TRUE(kept->fits(charge.quota, clock_.now())) << "step " << step;
                kept->take(charge.quota, clock_.now());
            }
        }
        int64_t last_end = 0;
        for (const auto &[end, units] : of_window) {
            ASSERT_GE(end, last_end + microseconds(quota.window).count());
            last_end = end;
        }
    }
    EXPECT_GT(granted, 500);
    EXPECT_GT(refunded, 500);
}

TEST_P(RefundTest, TooLateIsHarmless) {
    for (int round = 0; round < 20; ++round) {
        const Quota quota = traffic_.small_quota(GetParam());
        SCOPED_TRACE(described(quota));
        const std::string key = "k" + std::to_string(round);
        const Charge charge = ask(quota, key);
        clock_.move(2 * charge.verdict.reset.count() +
                    2 * microseconds(quota.window).count()); // the key may still be there
        refund(charge);
        const Charge full = ask(quota, quota.capacity(), key);
        ASSERT_TRUE(full.is_charged);
        refund(charge);
        ASSERT_EQ(ask(quota, 1, key).verdict.decision, Decision::denied);

        redis_.command({"DEL", key});
        refund(full);
        ASSERT_FALSE(redis_.has(key));
    }
}

// Rules on two locations may share a counter and have different limits.
TEST_P(RefundTest, OfASmallRuleLeavesTheStateOfALargeOneItsLife) {
    Quota small = traffic_.small_quota(GetParam());
    small.limit = 10;
    small.window = milliseconds(10'000);
    small.burst = 1;
    Quota large = small;
    large.limit = 1'000;
    if (rate_limit::is_bucket(large.algorithm)) {
        large.limit = 10;
        large.burst = 1'000;
    }
    const Charge charge = ask(small, "k");
    const Charge rest = ask(large, large.capacity() - 1, "k");
    ASSERT_TRUE(charge.is_charged);
    ASSERT_TRUE(rest.is_charged);
    refund(charge);
    const Verdict after = ask(large, 0, "k").verdict;
    EXPECT_EQ(after.remaining, 1U);
    EXPECT_GE(redis_.time_to_live_ms("k"), after.reset.count() / 1000 + 5000);
}

// A reload, or a rule of another location, may change the limit between a charge and its refund.
TEST_P(RefundTest, OfABucketAfterAnotherLimitIsRightToMicroseconds) {
    if (!rate_limit::is_bucket(GetParam())) {
        GTEST_SKIP() << "only buckets keep fractions of a microsecond";
    }
    const Quota sevenths = bucket_of(7); // a unit each 1,428,571 3/7 microseconds
    const Quota thirds = bucket_of(3);   // a unit each 3,333,333 1/3 microseconds
    ask(sevenths, 1, "k");
    const Charge charge = ask(sevenths, 2, "k");
    ask(thirds, 1, "k");
    refund(charge);
    const microseconds reset = ask(thirds, 0, "k").verdict.reset;
    EXPECT_GE(reset.count(), 4'761'905);
    EXPECT_LE(reset.count(), 4'761'908);
}

TEST_P(RefundTest, OfABucketIsRoundedAgainstTheClient) {
    if (!rate_limit::is_bucket(GetParam())) {
        GTEST_SKIP() << "only buckets keep fractions of a microsecond";
    }
    const Quota sevenths = bucket_of(7);
    ask(sevenths, 6, "k");
    const Charge charge = ask(sevenths, 1, "k"); // which leads to 10 s, without a fraction
    ask(sevenths, 1, "k");
    clock_.move(9'000'000); // so that a second of it is still taken, and 1,428,571 3/7 of the last
    refund(charge);
    EXPECT_EQ(ask(sevenths, 0, "k").verdict.reset.count(), 1'428'572);
}

TEST_P(RefundTest, MayComeInTheNextWindow) {
    if (GetParam() != Algorithm::sliding_window) {
        GTEST_SKIP() << "the others forget a window that has ended";
    }
    Quota quota;
    quota.algorithm = GetParam();
    quota.limit = 10;
    quota.window = milliseconds(10'000);
    clock_.set(1'700'000'000'000'000); // where a window begins
    const Charge charge = ask(quota, 6, "k");
    const Charge kept = ask(quota, 2, "k");
    ASSERT_TRUE(kept.is_charged);
    clock_.move(10'000'000);
    EXPECT_EQ(ask(quota, 1, "k").verdict.remaining, 1U); // of 10, 8 and 1 are taken
    refund(charge);
    EXPECT_EQ(ask(quota, 0, "k").verdict.remaining, 7U);
    refund(kept);
    EXPECT_EQ(ask(quota, 0, "k").verdict.remaining, 9U);
}

// What refunds move is counted up to 2^51, and then from 0.
TEST_P(RefundTest, OfABucketGoOnWhereTheirCountBeginsAnew) {
    if (!rate_limit::is_bucket(GetParam())) {
        GTEST_SKIP() << "only buckets count it";
    }
    const Quota quota = bucket_of(10);
    // The seconds until the second of three charges is refunded, and what then stays taken of it.
    // Its refund finds that the first one has moved it by 4 seconds.
    for (const auto &[elapsed, stays] : {std::pair{1, 1}, {3, 3}, {5, 4}}) {
        const double state[] = {static_cast<double>(clock_.now()), 0, 1, 2251799813685247, 0};
        redis_.command(
            {"SET", "k", {reinterpret_cast<const char *>(state), sizeof(state)}, "EX", "60"});
        const Charge first = ask(quota, 4, "k");
        const Charge second = ask(quota, 4, "k");
        const Charge kept = ask(quota, 4, "k");
        ASSERT_TRUE(kept.is_charged);
        refund(first);
        EXPECT_EQ(ask(quota, 0, "k").verdict.reset.count(), 8'000'000);
        double after[5];
        redis_.command({"GET", "k"}).text.copy(reinterpret_cast<char *>(after), sizeof(after));
        EXPECT_EQ(after[3], 4'000'000 - 1);
        clock_.move(elapsed * 1'000'000);
        refund(second);
        EXPECT_EQ(ask(quota, 0, "k").verdict.reset.count(), (4 + stays - elapsed) * 1'000'000)
            << "after " << elapsed << " s";
    }
}

// A bucket counts what refunds move from when its key is made. So the receipt of an earlier key may
// look like one of units that are still taken.
TEST_P(RefundTest, OfAKeyThatHasGoneMeanwhileChangesNothing) {
    Quota quota;
    quota.algorithm = GetParam();
    quota.limit = 64;
    quota.window = milliseconds(6'400);
    quota.set_capacity(64);
    clock_.set(1'700'000'000'000'000);
    for (const int refunds : {5, 100}) { // they move by about as long as the key is away, or longer
        for (const int64_t away_us : {30'000'000, 30'300'000, 30'600'000, 30'900'000}) {
            for (int i = 0; i < refunds; ++i) {
                refund(ask(quota, 64, "k"));
            }
            const Charge charge = ask(quota, 8, "k");
            clock_.move(away_us);
            ASSERT_FALSE(redis_.has("k"));
            ask(quota, 64, "k");
            refund(charge);
            EXPECT_EQ(ask(quota, 1, "k").verdict.decision, Decision::denied)
                << refunds << " refunds, then " << away_us << " us";
            redis_.command({"DEL", "k"});
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Each, RefundTest, testing::ValuesIn(all_but_concurrency), algorithm_name);

} // namespace
} // namespace model
