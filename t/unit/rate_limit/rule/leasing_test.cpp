#include "rate_limit/rule/leasing.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr LeaseSetting automatic{.kind = LeaseSetting::Kind::automatic, .given = {}};

LeaseSetting given(milliseconds time) {
    return {.kind = LeaseSetting::Kind::given, .given = time};
}

Quota quota_of(Algorithm algorithm, uint64_t limit, milliseconds window,
               std::optional<uint64_t> burst = {}) {
    Quota quota;
    quota.algorithm = algorithm;
    quota.limit = limit;
    quota.window = window;
    quota.burst = burst;
    return quota;
}

TEST(LeaseTimeTest, AutoIsAPartOfTheTimeInWhichTheCapacityComesBack) {
    EXPECT_EQ(lease_time(quota_of(Algorithm::sliding_log, 100, 6'400ms), automatic), 100ms);
    EXPECT_EQ(lease_time(quota_of(Algorithm::fixed_window, 100, 6'400ms), automatic), 200ms);
    EXPECT_EQ(lease_time(quota_of(Algorithm::sliding_window, 100, 6'400ms), automatic), 200ms);
    EXPECT_EQ(lease_time(quota_of(Algorithm::token_bucket, 100, 6'400ms), automatic), 400ms);
    EXPECT_EQ(lease_time(quota_of(Algorithm::gcra, 100, 6'400ms, 49), automatic), 200ms);
    EXPECT_EQ(lease_time(quota_of(Algorithm::concurrency, 100, 6'400ms), automatic), 0us);
}

TEST(LeaseTimeTest, AutoHasBounds) {
    EXPECT_EQ(lease_time(quota_of(Algorithm::fixed_window, 100, 24h), automatic), 4s);
    EXPECT_EQ(lease_time(quota_of(Algorithm::sliding_log, 100, 100ms), automatic), 10ms);
    EXPECT_EQ(lease_time(quota_of(Algorithm::sliding_log, 100, 40ms), automatic), 10ms);
    EXPECT_EQ(lease_time(quota_of(Algorithm::sliding_log, 100, 39ms), automatic), 0us);
    EXPECT_EQ(lease_time(quota_of(Algorithm::fixed_window, 16, 1min), automatic), 1'875ms);
    EXPECT_EQ(lease_time(quota_of(Algorithm::fixed_window, 15, 1min), automatic), 0us);
    EXPECT_EQ(lease_time(quota_of(Algorithm::gcra, 1000, 1min, 14), automatic), 0us);
}

TEST(LeaseTimeTest, AGivenTimeIsAtMostAQuarter) {
    const Quota quota = quota_of(Algorithm::fixed_window, 10, 4s);
    EXPECT_EQ(longest_lease_time(quota), 1s);
    EXPECT_EQ(lease_time(quota, given(1s)), 1s);
    EXPECT_EQ(lease_time(quota, given(1001ms)), 0us);
    EXPECT_EQ(lease_time(quota, {}), 0us);
}

TEST(LeaseTimeTest, NothingThatMayBeHeldBackIsLeased) {
    Quota quota = quota_of(Algorithm::leaky_bucket, 100, 10s, 99);
    quota.delay = 98;
    EXPECT_EQ(lease_time(quota, automatic), 0us);
    quota.delay = 99;
    EXPECT_EQ(lease_time(quota, automatic), 625ms);
}

/// One key, whose lease holds for 100 ms, and whose Redis answers within a millisecond.
class LeasingTest : public testing::Test, Machine {
  protected:
    microseconds boot_now() const override { return now_; }
    bool is_alive(pid_t /*process*/) const override { return true; }

    void SetUp() override { now_ = 1'000'000'000us; }

    LeaseBook::Account account() { return *book_.find_or_make({1, 2}, now_); }
    LeaseStep step(uint64_t units = 1) { return take_step(account(), units, terms_, now_, *this); }

    /// Asks so often, and returns the last step.
    LeaseStep steps(int count) {
        LeaseStep last;
        for (int i = 0; i < count; ++i) {
            last = step();
        }
        return last;
    }

    bool answer(const LeaseStep &step, uint64_t units) {
        return finish_fetch(account(), step.claim,
                            {.units = units, .usable_for = terms_.lease_time, .receipt = 7},
                            {.remaining = 500}, now_);
    }

    microseconds now_;
    LeaseTerms terms_{.lease_time = 100ms, .round_trip = 1ms, .timeout = 50ms};
    struct alignas(LeaseBook::Entry) {
        std::array<std::byte, 64 + sizeof(LeaseBook::Bucket)> bytes;
    } memory_{};
    LeaseBook book_{memory_.bytes};
};

TEST_F(LeasingTest, TheFourthRequestLeasesWhatWasAskedFor) {
    EXPECT_EQ(step(5).wanted, 0);
    EXPECT_EQ(steps(2).wanted, 0);
    const LeaseStep fourth = step();
    EXPECT_FALSE(fourth.taken);
    EXPECT_EQ(fourth.wanted, 8);
    EXPECT_EQ(fourth.claim.asked, now_);
}

TEST_F(LeasingTest, RequestsThatAreFarApartLeaseNothing) {
    for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(step().wanted, 0);
        now_ += 40ms;
    }
}

TEST_F(LeasingTest, OneFetchesForAll) {
    EXPECT_GT(steps(4).wanted, 0);
    EXPECT_EQ(steps(10).wanted, 0);
    now_ += terms_.timeout; // whoever claimed it has died
    EXPECT_GT(step().wanted, 0);
}

TEST_F(LeasingTest, NothingIsLeasedForLessThanFourRoundTrips) {
    terms_.round_trip = 25ms;
    EXPECT_GT(steps(4).wanted, 0);
    SetUp();
    terms_.round_trip = 26ms;
    now_ += 10s;
    EXPECT_EQ(steps(10).wanted, 0);
}

TEST_F(LeasingTest, ALeaseIsUsedUntilItsEndLessTheDrift) {
    const LeaseStep fourth = steps(4);
    EXPECT_TRUE(answer(fourth, 1000));
    EXPECT_TRUE(step().taken);
    now_ += 99ms;
    EXPECT_TRUE(step().taken);
    now_ += 901us;
    EXPECT_FALSE(step().taken);
}

TEST_F(LeasingTest, NoLeaseHoldsForLongerThanWasAskedFor) {
    const LeaseStep fourth = steps(4);
    EXPECT_EQ(end_of_lease(fourth.claim, {.units = 1, .usable_for = 24h * 3650, .receipt = 7}),
              end_of_lease(fourth.claim, {.units = 1, .usable_for = 100ms, .receipt = 7}));
}

TEST_F(LeasingTest, TheNextOneIsFetchedBeforeTheEnd) {
    EXPECT_TRUE(answer(steps(4), 1000));
    now_ += 80ms;
    EXPECT_EQ(steps(4).wanted, 0);
    now_ += 8ms;
    const LeaseStep late = step();
    EXPECT_TRUE(late.taken);
    EXPECT_GT(late.wanted, 0);
}

TEST_F(LeasingTest, TheNextOneIsFetchedBeforeTheUnitsAreUsedUp) {
    const LeaseStep first = steps(80);
    EXPECT_EQ(first.wanted, 0);
    now_ += 50ms; // the claim has ended
    EXPECT_TRUE(answer(step(), 40));
    int taken = 0;
    LeaseStep next;
    do {
        next = step();
        taken += next.taken ? 1 : 0;
    } while (next.wanted == 0 && taken < 40);
    EXPECT_GT(taken, 20);
    EXPECT_LT(taken, 40);
}

TEST_F(LeasingTest, TheNextOneIsForWhatTheLastOneWillNotGrant) {
    EXPECT_TRUE(answer(steps(4), 1000));
    for (int i = 0; i < 87; ++i) {
        now_ += 1ms;
        EXPECT_EQ(step().wanted, 0);
    }
    now_ += 1ms;
    const uint64_t demand = 4 + 88;
    const uint64_t uncovered = demand - 10; // the last one ends in a little less than 12 ms
    EXPECT_EQ(step().wanted, uncovered - uncovered / 16);
}

TEST_F(LeasingTest, NoRestIsLeasedThatIsTooSmallForARequest) {
    for (int i = 0; i < 20; ++i) {
        step(7);
    }
    now_ += terms_.timeout;
    const uint64_t a_little_less = 21 * 7 - 21 * 7 / 16;
    EXPECT_EQ(step(7).wanted, a_little_less - a_little_less % 7);
}

TEST_F(LeasingTest, OneDearRequestLeasesForTheOthers) {
    steps(3);
    EXPECT_EQ(step(100).wanted, 103 - 103 / 16);
}

TEST_F(LeasingTest, UnderSteadyDemandHardlyAnythingIsLeftOver) {
    int fetches = 0;
    uint64_t leased = 0;
    uint64_t left_over = 0;
    for (int i = 0; i < 10'000; ++i) {
        now_ += 1ms;
        while (const auto rest = account().take_ended(now_)) {
            left_over += rest->units;
        }
        const LeaseStep next = step();
        if (next.wanted > 0) {
            ++fetches;
            leased += next.wanted;
            EXPECT_TRUE(answer(next, next.wanted));
        }
    }
    EXPECT_LT(fetches, 130); // in 100 times that of a lease
    EXPECT_GT(leased, 9'500);
    EXPECT_LT(left_over, leased / 100);
}

TEST_F(LeasingTest, AnAnswerWithoutUnitsPutsTheNextTryOff) {
    EXPECT_TRUE(answer(steps(4), 0));
    now_ += 99ms;
    EXPECT_EQ(steps(10).wanted, 0);
    now_ += 1ms;
    EXPECT_GT(step().wanted, 0);
}

TEST_F(LeasingTest, UnitsWithoutRoomAreToBeReturned) {
    const LeaseStep fourth = steps(4);
    EXPECT_TRUE(answer(fourth, 10));
    EXPECT_TRUE(answer(fourth, 10));
    EXPECT_FALSE(answer(fourth, 10));
}

TEST_F(LeasingTest, TheVerdictTellsWhatRedisHadAndWhatThisHostHolds) {
    const Quota quota = quota_of(Algorithm::fixed_window, 1000, 10s);
    const LeaseStep fourth = steps(4);
    const LeasedUnits leased{.units = 100, .usable_for = 100ms, .receipt = 7};
    const Verdict after{.remaining = 800, .next_unit = 3s, .reset = 3s};
    EXPECT_TRUE(finish_fetch(account(), fourth.claim, leased, after, now_));
    EXPECT_TRUE(step().taken);
    now_ += 10ms;
    EXPECT_EQ(verdict_of_lease(quota, account(), now_),
              (Verdict{.remaining = 899, .next_unit = 2'990ms, .reset = 2'990ms}));
}

TEST_F(LeasingTest, TheVerdictNamesTheNextUnitUntilAllAreThere) {
    const Quota quota = quota_of(Algorithm::token_bucket, 1000, 1s); // a unit in 1 ms
    const LeaseStep fourth = steps(4);
    const LeasedUnits leased{.units = 100, .usable_for = 100ms, .receipt = 7};
    const Verdict after{.remaining = 800, .next_unit = 1ms, .reset = 200ms};
    EXPECT_TRUE(finish_fetch(account(), fourth.claim, leased, after, now_));
    now_ += 10ms;
    EXPECT_EQ(verdict_of_lease(quota, account(), now_),
              (Verdict{.remaining = 900, .next_unit = 1us, .reset = 190ms}));
    EXPECT_EQ(verdict_of_lease(quota_of(Algorithm::token_bucket, 900, 900ms), account(), now_),
              Verdict{.remaining = 900});
}

} // namespace
} // namespace rate_limit
