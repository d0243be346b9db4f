// What one request has charged to a counter, by several rules in turn, and what is settled of that.

#include "rate_limit/rule/counter_charges.hpp"
#include "unit/rate_limit/algorithms.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace rate_limit {
namespace {

class CounterChargesTest : public testing::TestWithParam<Algorithm> {
  protected:
    static Quota quota(uint64_t limit, uint64_t cost) {
        Quota quota;
        quota.algorithm = GetParam();
        quota.window = std::chrono::seconds{100};
        quota.limit = limit;
        quota.cost = cost;
        if (is_bucket(quota.algorithm)) {
            quota.set_capacity(1000);
        }
        return quota;
    }

    /// How much that is: units, or microseconds of a bucket.
    static double amount_of(const Quota &quota, uint64_t units) {
        return static_cast<double>(units) *
               (is_bucket(quota.algorithm) ? 100e6 / static_cast<double>(quota.limit) : 1.0);
    }
    static double amount_of(const Quota &quota) {
        return amount_of(quota, quota.cost) - static_cast<double>(quota.charged);
    }

    /// Lets the rules charge the counter in turn, as a request meets them, and settles it. Returns
    /// how much stays charged.
    /// The charge of a rule at `unknown` is not known yet when the others are made.
    static double settled(std::vector<Quota> rules, uint64_t final_cost,
                          size_t unknown = SIZE_MAX) {
        CounterCharges charges;
        double charged = 0;
        double known = 0;
        for (size_t i = 0; i < rules.size(); ++i) {
            Quota &rule = rules[i];
            rule.charged = static_cast<uint64_t>(known);
            charged += static_cast<double>(rule.to_charge());
            known += i != unknown ? static_cast<double>(rule.to_charge()) : 0;
            charges.add(rule);
        }
        if (const auto debt = charges.debt(final_cost)) {
            return charged + amount_of(*debt);
        }
        for (const Quota &rule : rules) {
            const Quota back = charges.next_return(rule, final_cost);
            if (!is_bucket(rule.algorithm)) { // the units of a bucket are alike
                EXPECT_LE(back.to_charge(), rule.to_charge()) << "no more than the rule charged";
            }
            charged -= static_cast<double>(back.to_charge());
        }
        return charged;
    }
};

TEST_P(CounterChargesTest, OneRuleIsSettledToTheUnit) {
    CounterCharges charges;
    EXPECT_TRUE(charges.add(quota(300, 7)));
    const auto debt = charges.debt(5000);
    ASSERT_TRUE(debt) << "above the capacity, too";
    EXPECT_EQ(debt->cost, 4993u);
    EXPECT_EQ(debt->charged, 0u);
    EXPECT_FALSE(charges.debt(7));
    const Quota back = charges.next_return(quota(300, 7), 3);
    EXPECT_EQ(back.cost, 4u);
    EXPECT_EQ(back.charged, 0u);
}

TEST_P(CounterChargesTest, WhatReservesNothingHasNothingToGiveBack) {
    Quota nothing = quota(300, 1);
    nothing.reserves_nothing = true;
    CounterCharges charges;
    charges.add(nothing);
    EXPECT_FALSE(charges.debt(0));
    EXPECT_FALSE(charges.next_return(nothing, 0).charges());
    EXPECT_EQ(charges.debt(1)->cost, 1u);
}

TEST_P(CounterChargesTest, TellsWhichRuleIsTheStrictest) {
    CounterCharges charges;
    EXPECT_TRUE(charges.add(quota(300, 1)));
    EXPECT_FALSE(charges.add(quota(400, 1)));
    EXPECT_TRUE(charges.add(quota(300, 2)));
    EXPECT_EQ(charges.debt(5)->limit, 300u);
}

TEST_P(CounterChargesTest, SeveralRulesAreSettledAsOne) {
    std::mt19937 random(1);
    const auto up_to = [&](uint64_t most) { return random() % (most + 1); };
    for (int round = 0; round < 20'000; ++round) {
        std::vector<Quota> rules;
        uint64_t strictest = UINT64_MAX;
        const uint64_t count = 1 + up_to(3);
        for (uint64_t i = 0; i < count; ++i) {
            rules.push_back(quota(100 + 100 * up_to(9), up_to(30)));
            rules.back().reserves_nothing = up_to(5) == 0;
            strictest = std::min(strictest, rules.back().limit);
        }
        const uint64_t final_cost = up_to(40);
        const uint64_t unknown = up_to(count);
        ASSERT_NEAR(settled(rules, final_cost, unknown), amount_of(quota(strictest, 0), final_cost),
                    static_cast<double>(count + 1))
            << "round " << round;
    }
}

INSTANTIATE_TEST_SUITE_P(Each, CounterChargesTest,
                         testing::Values(Algorithm::fixed_window, Algorithm::sliding_log,
                                         Algorithm::sliding_window, Algorithm::token_bucket,
                                         Algorithm::gcra, Algorithm::leaky_bucket),
                         [](const auto &test) { return std::string(to_string(test.param)); });

} // namespace
} // namespace rate_limit
