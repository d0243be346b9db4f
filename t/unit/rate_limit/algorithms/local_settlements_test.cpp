// What requests turned out to cost that this host decided alone.

#include "local_test.hpp"
#include "unit/rate_limit/algorithms.hpp"

#include <gtest/gtest.h>

namespace rate_limit {
namespace {

class LocalSettlementTest : public testing::TestWithParam<Algorithm> {
  protected:
    /// 100 units in 100 seconds, all of them at once.
    static Quota quota(uint64_t cost) {
        Quota quota;
        quota.algorithm = GetParam();
        quota.window = std::chrono::seconds{100};
        quota.limit = 100;
        if (is_bucket(quota.algorithm)) {
            quota.set_capacity(100);
        }
        quota.cost = cost;
        return quota;
    }

    uint64_t remaining(int64_t time) { return host_.ask(quota(0), time).remaining; }

    /// Returns the receipt.
    int64_t charge(uint64_t cost, int64_t time) { return charge_on(host_, cost, time); }
    static int64_t charge_on(Host &host, uint64_t cost, int64_t time) {
        const LocalDecision decision =
            decide_locally(host.known(time), quota(cost), false, host.at(time));
        host.keep(decision.after);
        return decision.receipt;
    }

    void settle(const LocalSettlement &settlement, int64_t time) {
        host_.keep(settle_locally(host_.known(time), quota(1), settlement, false, host_.at(time)));
    }
    void give_back(int64_t receipt, uint64_t units, int64_t time) {
        settle({.receipt = receipt, .to_return = units}, time);
    }
    void charge_more(int64_t receipt, uint64_t units, int64_t time) {
        settle({.receipt = receipt, .to_charge = units}, time);
    }

    bool is_window() const {
        return GetParam() == Algorithm::fixed_window || GetParam() == Algorithm::sliding_window;
    }

    Host host_{begin};
};

TEST_P(LocalSettlementTest, GivesBackWhatWasReservedTooMuch) {
    const int64_t charged = charge(50, begin);
    charge(20, begin);
    give_back(charged, 40, begin);
    EXPECT_EQ(remaining(begin), 70u);
    EXPECT_EQ(host_.ask(quota(71), begin).decision, Decision::denied);
    EXPECT_EQ(host_.ask(quota(70), begin).decision, Decision::granted);
}

TEST_P(LocalSettlementTest, ChargesMoreAboveTheLimitToo) {
    const int64_t charged = charge(50, begin);
    charge_more(charged, 10, begin);
    EXPECT_EQ(remaining(begin), 40u);
    charge_more(charged, 100, begin);
    EXPECT_EQ(remaining(begin), 0u);
    const Verdict denied = host_.ask(quota(1), begin + second);
    EXPECT_EQ(denied.decision, Decision::denied);
    EXPECT_GT(denied.retry_after, std::chrono::seconds{is_window() ? 0 : 59});
    const int64_t later = begin + second + denied.retry_after.count();
    EXPECT_EQ(host_.ask(quota(1), later).decision, Decision::granted);
}

TEST_P(LocalSettlementTest, DoesNotGiveBackTwiceWhatHasComeBack) {
    const int64_t charged = charge(100, begin);
    const int64_t later =
        begin + 250 * second; // all of it has come back, and no window is the same
    charge(100, later);
    EXPECT_EQ(remaining(later), 0u);
    give_back(charged, 100, later);
    EXPECT_EQ(remaining(later), 0u);
}

TEST_P(LocalSettlementTest, DoesNotNeedToKnowTheKey) {
    Host other(begin);
    const int64_t charged = charge_on(other, 50, begin);
    give_back(charged, 40, begin);
    EXPECT_EQ(remaining(begin), 100u);
    charge_more(charged, 30, begin);
    EXPECT_EQ(remaining(begin), 70u);
}

TEST_P(LocalSettlementTest, WhereNothingIsKnownAReturnLeavesNothingToKeep) {
    const LocalSettlement settlement{.receipt = begin, .to_return = 40};
    EXPECT_FALSE(settle_locally(std::nullopt, quota(50), settlement, false, host_.at(begin)));
}

TEST_P(LocalSettlementTest, AReturnOfAllLeavesNothingTaken) {
    const int64_t charged = charge(50, begin);
    give_back(charged, 50, begin);
    EXPECT_EQ(remaining(begin), 100u);
    EXPECT_EQ(host_.ask(quota(100), begin + second).decision, Decision::granted);
}

TEST_P(LocalSettlementTest, AUnitThatHasToBeFreeIsNotTaken) {
    Quota free = quota(0);
    keep_cost_free(free, true);
    EXPECT_EQ(host_.ask(free, begin).remaining, 100u);
    charge(99, begin);
    const Verdict last = host_.ask(free, begin);
    EXPECT_EQ(last.decision, Decision::granted);
    EXPECT_EQ(last.remaining, 1u);
    charge(1, begin);
    const Verdict denied = host_.ask(free, begin);
    EXPECT_EQ(denied.decision, Decision::denied);
    EXPECT_EQ(denied.remaining, 0u);
    EXPECT_EQ(denied.retry_after, denied.next_unit);
    EXPECT_EQ(host_.ask(free, begin + denied.retry_after.count() - 1).decision, Decision::denied);
    EXPECT_EQ(host_.ask(free, begin + denied.retry_after.count()).decision, Decision::granted);
}

TEST(LocalDebt, IsBoundedAtTenYears) {
    Quota bucket;
    bucket.algorithm = Algorithm::gcra;
    bucket.window = std::chrono::hours{24};
    bucket.limit = 1;
    Host host(begin);
    for (int i = 0; i < 3; ++i) {
        host.keep(settle_locally(host.known(begin), bucket, {.to_charge = largest_number}, false,
                                 host.at(begin)));
    }
    EXPECT_EQ(host.ask(bucket, begin).reset, longest_debt);
}

INSTANTIATE_TEST_SUITE_P(Each, LocalSettlementTest, testing::ValuesIn(all_but_concurrency),
                         [](const auto &info) { return std::string(to_string(info.param)); });

} // namespace
} // namespace rate_limit
