// Compares the local fallback with the models of the algorithms: for random rules, costs and times,
// for limits that change, and mostly at the moments at which something changes.

#include "local_test.hpp"

#include "model/models.hpp"
#include "unit/rate_limit/algorithms.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace rate_limit {
namespace {

using model::described;
using model::Wide;
using std::chrono::microseconds;

class LocalRandomTest : public testing::TestWithParam<Algorithm> {
  protected:
    int64_t window_of(const Quota &quota) const { return microseconds(quota.window).count(); }

    model::Traffic traffic_ = make_traffic();
};

Verdict ask(model::Model &model, const Quota &quota, int64_t time) {
    const bool fits = model.fits(quota, time);
    if (fits) {
        model.take(quota, time);
    }
    return model.verdict(quota, time, fits, fits);
}

using LocalExactTest = LocalRandomTest;

TEST_P(LocalExactTest, DecidesAsItsModelDoes) {
    int64_t decided[3] = {0, 0, 0};
    for (int round = 0; round < 250; ++round) {
        Quota quota = traffic_.quota(GetParam());
        const bool aligned = traffic_.one_in(2);
        const auto model = model::model_of(quota.algorithm, aligned);
        int64_t now = begin + traffic_.between(0, 1'000'000'000'000);
        const int64_t booted = now;
        Host host(now);
        Verdict last{.remaining = quota.capacity()};
        for (int step = 0; step < 200; ++step) {
            now = std::max(now + traffic_.step(quota, last), booted);
            if (traffic_.one_in(30)) {
                quota = traffic_.changed(quota, last);
            }
            quota.cost = traffic_.cost(quota, last);
            last = host.ask(quota, now, aligned);
            const Verdict expected = ask(*model, quota, now);
            ASSERT_EQ(last.decision, expected.decision) << described(quota) << ", step " << step;
            ASSERT_EQ(last.remaining, expected.remaining) << described(quota) << ", step " << step;
            ASSERT_TRUE(last == expected) << described(quota) << ", step " << step;
            ++decided[static_cast<int>(last.decision)];
        }
    }
    EXPECT_GE(*std::ranges::min_element(decided), 1000);
}

INSTANTIATE_TEST_SUITE_P(Each, LocalExactTest,
                         testing::Values(Algorithm::fixed_window, Algorithm::sliding_window,
                                         Algorithm::token_bucket, Algorithm::gcra,
                                         Algorithm::leaky_bucket),
                         [](const auto &info) { return std::string(to_string(info.param)); });

TEST_P(LocalRandomTest, GrantsAfterRetryAfterAlone) {
    int waited = 0;
    for (int round = 0; round < 100; ++round) {
        Quota quota = traffic_.quota(GetParam());
        const bool aligned = traffic_.one_in(2);
        int64_t now = begin + traffic_.between(0, 1'000'000'000'000);
        Host host(now);
        Verdict last{.remaining = quota.capacity()};
        for (int step = 0; step < 100; ++step) {
            now += std::max<int64_t>(traffic_.step(quota, last), 0);
            if (traffic_.one_in(20)) { // any limit, also one that divides a microsecond otherwise
                quota.limit = static_cast<uint64_t>(traffic_.between(1, 2000));
                quota.burst = quota.burst ? std::optional(quota.limit) : std::nullopt;
            }
            quota.cost = traffic_.cost(quota, last);
            last = host.ask(quota, now, aligned);
            ASSERT_EQ(last.retry_after > microseconds{0}, last.decision == Decision::denied);
            ASSERT_LE(last.next_unit, last.reset);
            ASSERT_EQ(last.remaining == quota.capacity(), last.reset == microseconds{0});
            if (last.decision == Decision::denied) {
                // nothing may be asked for, too, if the limit was lowered
                ASSERT_TRUE(quota.cost == 0 || last.next_unit <= last.retry_after);
                now += last.retry_after.count();
                last = host.ask(quota, now, aligned);
                ASSERT_EQ(last.decision, Decision::granted) << described(quota);
                ++waited;
            } else if (last.reset > microseconds{0} && traffic_.one_in(20)) {
                now += last.reset.count();
                Quota all = quota;
                all.cost = std::min(quota.capacity(), largest_cost(quota.algorithm));
                last = host.ask(all, now, aligned);
                ASSERT_EQ(last.decision, Decision::granted) << described(quota);
            }
        }
    }
    EXPECT_GT(waited, 500);
}

INSTANTIATE_TEST_SUITE_P(Each, LocalRandomTest, testing::ValuesIn(all_but_concurrency),
                         [](const auto &info) { return std::string(to_string(info.param)); });

using LocalLogTest = LocalRandomTest;

// The model has what was granted here, so it knows exactly when each unit is back.
TEST_F(LocalLogTest, NeverGrantsMoreAndDeniesAnEighthOfAWindowLongerAtMost) {
    int64_t decided[3] = {0, 0, 0};
    int64_t late = 0;
    for (int round = 0; round < 500; ++round) {
        Quota quota = traffic_.one_in(2) ? traffic_.quota(Algorithm::sliding_log)
                                         : traffic_.small_quota(Algorithm::sliding_log);
        const bool is_steady = traffic_.one_in(2); // else the clock steps back at times
        const microseconds step_length = microseconds(quota.window) / 8;
        const auto model = model::model_of(quota.algorithm, false);
        int64_t now = begin;
        Host host(now);
        Verdict last{.remaining = quota.capacity()};
        for (int step = 0; step < 200; ++step) {
            now = std::max(now + traffic_.step(quota, last), is_steady ? now : begin);
            if (traffic_.one_in(30)) {
                quota = traffic_.changed(quota, last);
            }
            quota.cost = traffic_.cost(quota, last);
            const Verdict before = model->verdict(quota, now, model->fits(quota, now), false);
            last = host.ask(quota, now);
            const bool granted = last.decision == Decision::granted;
            SCOPED_TRACE(described(quota) + ", step " + std::to_string(step));
            ASSERT_TRUE(!granted || before.decision == Decision::granted);
            ASSERT_TRUE(!is_steady || last.retry_after < before.retry_after + step_length);
            if (granted) {
                model->take(quota, now);
            }
            const Verdict after = model->verdict(quota, now, granted, granted);
            ASSERT_LE(last.remaining, after.remaining);
            ASSERT_TRUE(last.remaining < after.remaining || last.next_unit >= after.next_unit);
            ASSERT_GE(last.reset, after.reset);
            if (is_steady) {
                ASSERT_LT(last.next_unit, after.next_unit + step_length);
                ASSERT_LT(last.reset, after.reset + step_length);
            }
            ++decided[static_cast<int>(last.decision)];
            late += last.retry_after > before.retry_after ? 1 : 0;
        }
    }
    EXPECT_GE(*std::ranges::min_element(decided), 5000);
    EXPECT_GE(late, 1000);
}

TEST_F(LocalLogTest, GrantsItsLimitAtMostInAnyWindow) {
    for (int round = 0; round < 100; ++round) {
        const Quota rule = traffic_.small_quota(Algorithm::sliding_log);
        struct Grant {
            int64_t time;
            uint64_t units;
        };
        std::vector<Grant> grants;
        int64_t now = begin;
        Host host(now);
        Verdict last{.remaining = rule.capacity()};
        uint64_t most = 0;
        for (int step = 0; step < 400; ++step) {
            now += std::max<int64_t>(traffic_.step(rule, last), 0);
            Quota quota = rule;
            quota.cost = traffic_.cost(rule, last);
            last = host.ask(quota, now);
            if (last.decision != Decision::granted) {
                continue;
            }
            grants.push_back({now, quota.cost});
            uint64_t sum = 0;
            for (const auto &[time, units] : grants) {
                sum += time > now - window_of(rule) ? units : 0;
            }
            most = std::max(most, sum);
        }
        ASSERT_EQ(most, rule.limit) << described(rule);
    }
}

} // namespace
} // namespace rate_limit
