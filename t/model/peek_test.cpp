// Peeks beside the models: they tell what the next check will find, and change nothing.

#include "model_test.hpp"
#include "unit/redis_client/different_bytes.hpp"

#include <algorithm>

namespace model {
namespace {

class PeekTest : public testing::TestWithParam<Algorithm> {
  protected:
    Redis redis_;
    Clock clock_;
    Traffic traffic_;
    redis_client::ObjectPool<Permit> pool_;
    redis_client::Permits permits_{pool_, redis_client::different_bytes};
};

TEST_P(PeekTest, TellsWhatACheckFindsAndChangesNothing) {
    int decided[3] = {0, 0, 0};
    for (int i = 0; i < 20; ++i) {
        Quota quota = traffic_.quota(GetParam());
        const bool aligned = traffic_.one_in(2);
        const std::string key = "k" + std::to_string(i);
        const auto model = model_of(quota.algorithm, aligned);
        Verdict last{.remaining = quota.capacity()};
        clock_.set(1'700'000'000'000'000 + traffic_.between(0, 1'000'000'000'000));
        for (int step = 0; step < 150; ++step) {
            if (traffic_.one_in(30)) {
                quota = traffic_.changed(quota, last);
            }
            quota.cost = traffic_.cost(quota, last);
            clock_.move(std::max<int64_t>(traffic_.step(quota, last), 0));
            SCOPED_TRACE(described(quota) + (aligned ? " aligned" : "") + ", step " +
                         std::to_string(step));

            const bool fits = model->fits(quota, clock_.now());
            const State before = redis_.state(key);
            const auto peeked = redis_.peek(quota, aligned, key);
            ASSERT_TRUE(peeked);
            ASSERT_EQ(*peeked, model->verdict(quota, clock_.now(), fits, false));
            ASSERT_EQ(redis_.state(key), before) << "what is looked at stays as it was";

            Charge charge = charge_of(quota, aligned, key);
            if (quota.algorithm == Algorithm::concurrency) {
                charge.permit = permits_.make(key, quota.cost, quota.window);
            }
            ASSERT_EQ(redis_.check({&charge, 1}), "");
            ASSERT_EQ(charge.verdict.decision, peeked->decision);
            ASSERT_EQ(charge.verdict.retry_after, peeked->retry_after);
            if (fits && charge.permit != nullptr && quota.cost > 0) {
                static_cast<Concurrency &>(*model).take_permit(quota, clock_.now(),
                                                               charge.permit->name);
            } else if (fits) {
                model->take(quota, clock_.now());
            }
            last = charge.verdict;
            ++decided[static_cast<int>(last.decision)];
        }
    }
    EXPECT_GE(std::min({decided[0], decided[1], decided[2]}), 50);
}

INSTANTIATE_TEST_SUITE_P(Each, PeekTest, testing::ValuesIn(all_algorithms), algorithm_name);

} // namespace
} // namespace model
