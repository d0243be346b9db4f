// A counter that one request is charged for twice, by two rules of which the second one is
// stricter: what the second one takes less the first one's charge leads to what it alone would have
// led to.

#include "model_test.hpp"

#include <algorithm>

namespace model {
namespace {

class ChargedTest : public testing::TestWithParam<Algorithm> {
  protected:
    Charge ask(const Quota &quota, std::string_view key) {
        Charge charge = charge_of(quota, false, key);
        EXPECT_EQ(redis_.check({&charge, 1}), "");
        return charge;
    }

    /// The quota of a rule that grants more, and is charged for no more units.
    Quota laxer(const Quota &quota) {
        Quota lax = quota;
        lax.limit = quota.limit * static_cast<uint64_t>(traffic_.one_of({5, 10, 100, 1000}));
        if (rate_limit::is_bucket(quota.algorithm)) {
            lax.burst = lax.limit; // fills in no shorter time than the stricter one
        }
        lax.cost = static_cast<uint64_t>(traffic_.between(0, static_cast<int64_t>(quota.cost)));
        return lax;
    }

    /// A bucket that keeps fractions is rounded when its limit changes.
    static bool is_exact(const Quota &one, const Quota &other) {
        return !rate_limit::is_bucket(one.algorithm) ||
               (rate_limit::Interval(one).is_whole() && rate_limit::Interval(other).is_whole());
    }

    Redis redis_;
    Clock clock_;
    Traffic traffic_;
};

TEST_P(ChargedTest, WhatIsChargedAlreadyIsNotChargedAgain) {
    int granted = 0;
    int denied = 0;
    for (int round = 0; round < 60; ++round) {
        Quota strict = traffic_.small_quota(GetParam());
        if (rate_limit::is_bucket(GetParam())) {
            strict.burst = std::min(strict.burst.value_or(0), strict.limit);
        }
        const std::string key = "k" + std::to_string(round);
        const std::string twin = "twin" + std::to_string(round);
        clock_.set(1'700'000'000'000'000 + traffic_.between(0, 1'000'000'000'000));
        for (int step = 0; step < 20; ++step) {
            strict.cost = static_cast<uint64_t>(traffic_.between(1, 3));
            strict.charged = 0;
            const Charge alone = ask(strict, twin);
            SCOPED_TRACE(described(strict) + " step " + std::to_string(step));

            const Charge first = ask(laxer(strict), key);
            if (first.verdict.decision != Decision::granted || !is_exact(strict, first.quota)) {
                break;
            }
            Quota second = strict;
            if (strict.cost <= strict.capacity()) {
                second.charged = first.quota.to_charge();
            }
            const Charge charge = ask(second, key);
            ASSERT_EQ(charge.verdict.decision, alone.verdict.decision);
            if (charge.verdict.decision != Decision::granted) {
                EXPECT_GE(charge.verdict.retry_after, alone.verdict.retry_after);
                redis_.refund(first); // so that the counters stay alike
                ++denied;
            } else {
                EXPECT_EQ(charge.verdict.remaining, alone.verdict.remaining);
                EXPECT_EQ(charge.verdict.reset, alone.verdict.reset);
                ++granted;
            }
            clock_.move(traffic_.between(0, strict.refill().count() / 4));
        }
    }
    EXPECT_GT(granted, 40);
    EXPECT_GT(denied, 0);
}

INSTANTIATE_TEST_SUITE_P(Each, ChargedTest,
                         testing::Values(Algorithm::fixed_window, Algorithm::sliding_log,
                                         Algorithm::sliding_window, Algorithm::token_bucket,
                                         Algorithm::gcra, Algorithm::leaky_bucket),
                         algorithm_name);

} // namespace
} // namespace model
