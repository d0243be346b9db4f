// A counter that an operator deletes: what was charged to it, and comes back afterwards, does not
// come back into the counter that takes its place.

#include "charging_test.hpp"

#include <string>
#include <utility>
#include <vector>

namespace model {
namespace {

class ResetsTest : public ChargingTest {
  protected:
    /// By either way in which hosts give units back.
    void give_back(const Charge &charge) {
        if (traffic_.one_in(2)) {
            EXPECT_EQ(redis_.refund(charge), "");
            return;
        }
        const Redis::Settlement settlement{&charge, charge.quota.cost};
        EXPECT_EQ(redis_.settle(SettlementKind::refund, {&settlement, 1}, aligned_), "1");
    }

    /// Some charges and leases of the counter, all of which could go back.
    std::vector<Charge> charge_some(const Quota &quota, const std::string &key) {
        std::vector<Charge> charged;
        const int64_t step = microseconds(quota.window).count() / 40;
        for (int i = 0; i < 6; ++i) {
            clock_.move(traffic_.between(0, step));
            Quota rule = quota;
            rule.cost = static_cast<uint64_t>(traffic_.between(1, 4));
            Charge charge = leasing_charge_of(rule, aligned_, key, quota.refill() / 32,
                                              static_cast<uint64_t>(traffic_.between(0, 3)));
            EXPECT_EQ(redis_.check({&charge, 1}), "");
            if (!charge.is_charged) {
                continue;
            }
            charged.push_back(charge);
            if (charge.leased.units > 0) {
                charge.quota.cost = charge.leased.units;
                charge.receipt = charge.leased.receipt;
                charge.decided = {};
                charged.push_back(charge);
            }
        }
        return charged;
    }
};

TEST_P(ResetsTest, WhatWasChargedBeforeDoesNotComeBack) {
    int returned = 0;
    for (int round = 0; round < 60; ++round) {
        aligned_ = traffic_.one_in(2);
        const Quota quota =
            quota_of(60, milliseconds(traffic_.one_of({1'000, 60'000, 86'400'000})), 60);
        const int64_t window = microseconds(quota.window).count();
        const std::string key = "k" + std::to_string(round);
        const std::string twin = "twin" + std::to_string(round); // to which nothing is given back
        SCOPED_TRACE(described(quota) + (aligned_ ? " aligned" : ""));
        clock_.set(1'700'000'000'000'000 / window * window + traffic_.between(0, window));
        std::vector<Charge> old = charge_some(quota, key);
        redis_.command({"DEL", key});
        clock_.move(traffic_.one_of({window / 10'000 + 100, window / 40}));
        for (int step = 0; step < 30; ++step) {
            clock_.move(traffic_.between(1, traffic_.one_in(10) ? window : window / 60));
            const auto cost = static_cast<uint64_t>(traffic_.between(0, 5));
            const Charge here = ask(quota, cost, key);
            const Charge there = ask(quota, cost, twin);
            ASSERT_EQ(here.verdict, there.verdict) << "step " << step;
            if (!old.empty() && traffic_.one_in(2)) {
                give_back(old.back());
                old.pop_back();
                ++returned;
            }
            if (here.is_charged && cost > 0 && traffic_.one_in(3)) { // its own units do come back
                give_back(here);
                give_back(there);
            }
        }
    }
    EXPECT_GT(returned, 300);
}

/// Algorithms whose states tell when the count of a window began.
class WindowResetsTest : public ResetsTest {
  protected:
    static constexpr int64_t window_end_us = 1'700'000'010'000'000; // of windows of 10 s
    static constexpr int64_t in_the_middle_us = window_end_us - 5'000'000;
};

TEST_P(WindowResetsTest, TheFirstUnitOfACountComesBackToIt) {
    for (int round = 0; round < 300; ++round) {
        aligned_ = traffic_.one_in(2);
        const int64_t window_ms =
            traffic_.one_of({1, 7, 1'000, 61'234, 86'400'000, 31'622'400'000});
        const Quota quota = quota_of(60, milliseconds(window_ms), 60);
        clock_.set(1'700'000'000'000'000 + traffic_.between(0, 1'000'000'000'000));
        SCOPED_TRACE(described(quota) + (aligned_ ? " aligned" : ""));
        redis_.command({"DEL", "k"});
        const Charge first = ask(quota, 4, "k");
        const Charge second = ask(quota, 2, "k");
        give_back(first);
        ASSERT_EQ(ask(quota, 0, "k").verdict.remaining, 58U);
        give_back(second);
        ASSERT_EQ(ask(quota, 0, "k").verdict.remaining, 60U);
    }
}

// Where the clock stepped back before the window, the window goes on.
TEST_P(WindowResetsTest, WhatIsChargedAfterAStepBackComesBack) {
    for (const bool aligned : {false, true}) {
        aligned_ = aligned;
        const Quota quota = quota_of(60, milliseconds(10'000), 60);
        const std::string key = aligned ? "aligned" : "first";
        clock_.set(in_the_middle_us);
        ask(quota, 10, key);
        clock_.move(-3'600'000'000);
        const Charge charge = ask(quota, 20, key);
        EXPECT_EQ(charge.verdict.remaining, 30U);
        give_back(charge);
        EXPECT_EQ(ask(quota, 0, key).verdict.remaining, 50U);
    }
}

// 0.1.0 knows of no marks. Its hosts and ours may share a Redis.
TEST_P(WindowResetsTest, ReadWhatTheVersionBeforeHasWritten) {
    aligned_ = true;
    const Quota quota = quota_of(60, milliseconds(10'000), 60);
    clock_.set(in_the_middle_us);
    const double fixed[] = {window_end_us, 10};
    const double sliding[] = {window_end_us - 10'000'000, 10, 0};
    const bool is_fixed = GetParam() == Algorithm::fixed_window;
    const char *const state = reinterpret_cast<const char *>(is_fixed ? fixed : sliding);
    redis_.command({"SET", "k", {state, is_fixed ? sizeof(fixed) : sizeof(sliding)}, "EX", "60"});
    const Charge charge = ask(quota, 20, "k");
    EXPECT_EQ(charge.verdict.remaining, 30U);
    give_back(charge);
    EXPECT_EQ(ask(quota, 0, "k").verdict.remaining, 50U);
    clock_.set(window_end_us);
    EXPECT_EQ(ask(quota, 0, "k").verdict.remaining, is_fixed ? 60U : 50U);
}

TEST_P(WindowResetsTest, WriteWhatTheVersionBeforeCanRead) {
    aligned_ = true;
    const Quota quota = quota_of(60, milliseconds(10'000), 60);
    clock_.set(in_the_middle_us);
    ask(quota, 5, "k");
    ask(quota, 7, "k");
    double state[3]{};
    const std::string text = redis_.command({"GET", "k"}).text;
    const bool is_fixed = GetParam() == Algorithm::fixed_window;
    ASSERT_EQ(text.size(), is_fixed ? 16U : 24U);
    text.copy(reinterpret_cast<char *>(state), sizeof(state));
    if (is_fixed) { // the window ends a little later there
        EXPECT_GE(state[0], window_end_us);
        EXPECT_LT(state[0], window_end_us + 10'000'000 / 64 + 1);
        EXPECT_EQ(state[1], 12);
    } else { // a part of a unit more is taken there
        EXPECT_EQ(state[0], window_end_us - 10'000'000);
        EXPECT_GE(state[1], 12);
        EXPECT_LT(state[1], 13);
        EXPECT_EQ(state[2], 0);
    }
}

INSTANTIATE_TEST_SUITE_P(Each, ResetsTest, testing::ValuesIn(all_but_concurrency), algorithm_name);
INSTANTIATE_TEST_SUITE_P(Each, WindowResetsTest,
                         testing::Values(Algorithm::fixed_window, Algorithm::sliding_window),
                         algorithm_name);

} // namespace
} // namespace model
