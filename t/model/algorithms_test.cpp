// Each algorithm beside its model: the same checks at the same times, in random order, to the real
// script in a real Redis. Every number of every verdict is equal.

#include "model_test.hpp"
#include "unit/redis_client/different_bytes.hpp"

#include <algorithm>

namespace model {
namespace {

// Lua's numbers end at 2^53, in the year 2255.
constexpr int64_t end_of_time = 8'000'000'000'000'000;

class AlgorithmTest : public testing::TestWithParam<Algorithm> {
  protected:
    /// What a check of the model says, which charges it.
    static Verdict check(Model &model, const Quota &quota, int64_t now, const Charge &charge) {
        const bool fits = model.fits(quota, now);
        if (fits) {
            if (charge.permit != nullptr && quota.cost > 0) {
                static_cast<Concurrency &>(model).take_permit(quota, now, charge.permit->name);
            } else {
                model.take(quota, now);
            }
        }
        return model.verdict(quota, now, fits, fits);
    }

    /// The key never stays for ever, and 5 s longer than what it counts.
    static void expect_long_enough(const State &state, const Verdict &verdict) {
        const bool is_there = state.time_to_live_ms != -2;
        ASSERT_TRUE(is_there || verdict.reset.count() == 0);
        if (is_there && verdict.reset.count() > 0) {
            ASSERT_GE(state.time_to_live_ms, verdict.reset.count() / 1000 + 5000);
        }
        ASSERT_NE(state.time_to_live_ms, -1);
    }

    Redis redis_;
    Clock clock_;
    Traffic traffic_;
    redis_client::ObjectPool<Permit> pool_;
    redis_client::Permits permits_{pool_, redis_client::different_bytes};
};

TEST_P(AlgorithmTest, DecidesAsItsModelDoes) {
    constexpr int rules = 60;
    constexpr int steps = 400;
    int64_t decided[3] = {0, 0, 0};
    for (int i = 0; i < rules; ++i) {
        Quota quota = traffic_.quota(GetParam());
        const bool aligned = traffic_.one_in(2);
        const std::string key = "k" + std::to_string(i);
        const auto model = model_of(quota.algorithm, aligned);
        Verdict last{.remaining = quota.capacity()};
        std::vector<Permit *> held;
        clock_.set(1'700'000'000'000'000 + traffic_.between(0, 1'000'000'000'000));
        for (int step = 0; step < steps && clock_.now() < end_of_time; ++step) {
            int64_t elapsed = traffic_.step(quota, last);
            if (traffic_.one_in(30)) {
                quota = traffic_.changed(quota, last);
            }
            quota.cost = traffic_.cost(quota, last);
            Charge charge = charge_of(quota, aligned, key);
            if (quota.algorithm == Algorithm::concurrency) {
                elapsed = std::max<int64_t>(elapsed, 0); // its permits' holders see no clock
                charge.permit = permits_.make(key, quota.cost, quota.window);
                if (!held.empty() && traffic_.one_in(3)) {
                    std::swap(held.back(), held[traffic_.between(0, held.size() - 1)]);
                    ASSERT_EQ(redis_.release(*held.back()), "");
                    static_cast<Concurrency &>(*model).release(held.back()->name);
                    held.pop_back();
                }
            }
            clock_.move(elapsed);
            SCOPED_TRACE(described(quota) + (aligned ? " aligned" : "") + ", step " +
                         std::to_string(step));

            const Verdict expected = check(*model, quota, clock_.now(), charge);
            const bool changes = expected.decision == Decision::granted && quota.cost > 0;
            const bool is_short = quota.algorithm != Algorithm::sliding_log || quota.limit <= 1000;
            const auto [error, before, after] = redis_.check_and_look(
                {&charge, 1},
                !changes && is_short ? Redis::Looking::at_all : Redis::Looking::at_time_to_live);
            ASSERT_EQ(error, "");
            last = charge.verdict;
            ASSERT_EQ(last.decision, expected.decision);
            ASSERT_EQ(last.remaining, expected.remaining);
            ASSERT_EQ(last.retry_after, expected.retry_after);
            ASSERT_EQ(last.next_unit, expected.next_unit);
            ASSERT_EQ(last.reset, expected.reset);
            ASSERT_EQ(last.delay, expected.delay);
            ASSERT_EQ(charge.is_charged, expected.decision == Decision::granted);
            if (!changes) {
                ASSERT_EQ(before[0], after[0]) << "what takes nothing changes nothing";
            } else if (charge.permit != nullptr) {
                held.push_back(charge.permit);
                // until its permit falls free, which the verdict does not tell
                ASSERT_GE(after[0].time_to_live_ms, quota.window.count() + 5000);
            }
            if (charge.permit == nullptr) {
                expect_long_enough(after[0], expected);
                if (HasFatalFailure()) {
                    return;
                }
            }
            ASSERT_NE(after[0].time_to_live_ms, -1);
            if (after[0].time_to_live_ms == -2) {
                model->forget(); // should the clock step back
            }
            ++decided[static_cast<int>(last.decision)];
        }
    }
    EXPECT_GE(decided[0] + decided[1] + decided[2], 20'000);
    EXPECT_GE(std::min({decided[0], decided[1], decided[2]}), 500);
}

TEST_P(AlgorithmTest, IsGrantedAfterRetryAfterAndNotAMicrosecondEarlier) {
    if (GetParam() == Algorithm::concurrency) {
        GTEST_SKIP() << "nobody knows when a request ends";
    }
    int waited = 0;
    for (int i = 0; i < 150; ++i) {
        const Quota quota = traffic_.quota(GetParam());
        const bool aligned = traffic_.one_in(2);
        SCOPED_TRACE(described(quota));
        const std::string key = "k" + std::to_string(i);
        const auto ask = [&](uint64_t cost) {
            Quota asked = quota;
            asked.cost = cost;
            Charge charge = charge_of(asked, aligned, key);
            EXPECT_EQ(redis_.check({&charge, 1}), "");
            return charge.verdict;
        };
        Verdict last{.remaining = quota.capacity()};
        clock_.set(1'700'000'000'000'000 + traffic_.between(0, 1'000'000'000'000));
        for (int step = 0; step < 20; ++step) {
            clock_.move(std::max<int64_t>(traffic_.step(quota, last), 0));
            const uint64_t cost = traffic_.cost(quota, last);
            last = ask(cost);
            if (last.decision == Decision::denied) {
                ++waited;
                clock_.move(last.retry_after.count() - 1);
                ASSERT_EQ(ask(cost).retry_after, microseconds{1});
                clock_.move(1);
                last = ask(cost);
                ASSERT_EQ(last.decision, Decision::granted);
            }
        }
    }
    EXPECT_GT(waited, 300);
}

INSTANTIATE_TEST_SUITE_P(Each, AlgorithmTest, testing::ValuesIn(all_algorithms), algorithm_name);

} // namespace
} // namespace model
