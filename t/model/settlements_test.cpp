// What requests turn out to cost when they end: the counters are those of models that know the
// final costs, whenever they are told.

#include "charging_test.hpp"
#include "settled_counters.hpp"

#include <vector>

namespace model {
namespace {

class SettlementsTest : public ChargingTest {
  protected:
    void settle(SettlementKind kind, const Charge &charge, uint64_t units) {
        const Redis::Settlement settlement{&charge, units};
        EXPECT_EQ(redis_.settle(kind, {&settlement, 1}, aligned_), "1");
    }
    void settle(const Charge &charge, uint64_t final_cost) {
        const uint64_t reserved = charge.quota.reserves_nothing ? 0 : charge.quota.cost;
        if (final_cost > reserved) {
            settle(SettlementKind::debt, charge, final_cost - reserved);
        } else if (final_cost < reserved) {
            settle(SettlementKind::refund, charge, reserved - final_cost);
        }
    }
};

/// Requests in flight, each with what it has reserved.
struct Reserved {
    Charge charge;
    int64_t reserved;
    int64_t charged; // what the model's return refers to
};

// What is known of a bucket's past gives back more: see returns_test.cpp.
TEST_P(SettlementsTest, AreThoseOfTheModel) {
    redis_.keep_no_past();
    int settled = 0;
    int denied = 0;
    for (int round = 0; round < 60; ++round) {
        aligned_ = traffic_.one_in(2);
        const auto limit = static_cast<uint64_t>(traffic_.one_of({1, 2, 5, 10, 40}));
        const Quota base = quota_of(limit, milliseconds(traffic_.one_of({40, 1'000, 10'000})),
                                    static_cast<uint64_t>(traffic_.one_of({1, 8, 50})));
        if (rate_limit::is_bucket(base.algorithm) && !rate_limit::Interval(base).is_whole()) {
            continue;
        }
        const auto model = settled_counter_of(base, aligned_);
        const std::string key = "k" + std::to_string(round);
        const int64_t window = microseconds(base.window).count();
        std::vector<Reserved> in_flight;
        for (int step = 0; step < 120; ++step) {
            clock_.move(traffic_.one_in(8) ? traffic_.between(0, 3 * window)
                                           : traffic_.between(0, window / 5));
            if (!in_flight.empty() && traffic_.one_in(2)) {
                const auto which = static_cast<size_t>(
                    traffic_.between(0, static_cast<int64_t>(in_flight.size()) - 1));
                const Reserved ended = in_flight[which];
                in_flight.erase(in_flight.begin() + static_cast<ptrdiff_t>(which));
                const int64_t final_cost = traffic_.one_in(6)
                                               ? traffic_.between(0, 4 * ended.reserved + 30)
                                               : traffic_.between(0, ended.reserved + 1);
                settle(ended.charge, static_cast<uint64_t>(final_cost));
                const int64_t more = final_cost - ended.reserved;
                if (more > 0) {
                    model->charge(clock_.now(), more);
                } else if (more < 0) {
                    model->give_back(clock_.now(), -more, ended.charged);
                }
                ++settled;
                continue;
            }
            Quota quota = base;
            quota.cost =
                static_cast<uint64_t>(traffic_.between(0, static_cast<int64_t>(base.capacity())));
            rate_limit::keep_cost_free(quota, true);
            const auto needed = static_cast<int64_t>(quota.cost);
            const Charge charge = ask(quota, key);
            const bool fits = model->fits(clock_.now(), needed);
            ASSERT_EQ(charge.verdict.decision == Decision::granted, fits)
                << described(quota) << ", step " << step;
            if (fits) {
                const int64_t reserved = quota.reserves_nothing ? 0 : needed;
                in_flight.push_back(
                    {charge, reserved, reserved > 0 ? model->charge(clock_.now(), reserved) : 0});
            } else {
                const int64_t wait = charge.verdict.retry_after.count();
                EXPECT_FALSE(model->fits(clock_.now() + wait - 1, needed)) << described(quota);
                EXPECT_TRUE(model->fits(clock_.now() + wait, needed)) << described(quota);
                ++denied;
            }
            // what is left, as a question that takes nothing finds it
            const uint64_t remaining = charge.verdict.remaining;
            if (remaining > 0) {
                EXPECT_TRUE(model->fits(clock_.now(), static_cast<int64_t>(remaining)));
            }
            if (remaining < base.capacity()) {
                EXPECT_FALSE(model->fits(clock_.now(), static_cast<int64_t>(remaining) + 1));
            }
        }
    }
    EXPECT_GT(settled, 500);
    EXPECT_GT(denied, 300);
}

TEST_P(SettlementsTest, OfManyRequestsGoTogether) {
    const Quota quota = quota_of(40, milliseconds(10'000), 40);
    Charge charges[] = {ask(quota, 4, "a"), ask(quota, 4, "b"), ask(quota, 4, "foreign")};
    redis_.command({"DEL", "foreign"});
    redis_.command({"HSET", "foreign", "field", "value"});
    const Redis::Settlement settlements[] = {{&charges[0], 3}, {&charges[2], 3}, {&charges[1], 3}};
    for (const SettlementKind kind : {SettlementKind::debt, SettlementKind::refund}) {
        const std::string results = redis_.settle(kind, settlements, false);
        EXPECT_EQ(results.substr(0, 3), "101") << "each by itself";
        EXPECT_NE(results.find("WRONGTYPE"), std::string::npos) << results;
        EXPECT_LE(results.size(), 3u + 400);
    }
    const uint64_t capacity = quota.capacity();
    EXPECT_EQ(ask(quota, 0, "a").verdict.remaining, capacity - 4);
    EXPECT_EQ(ask(quota, 0, "b").verdict.remaining, capacity - 4);
}

TEST_P(SettlementsTest, ALargeDebtIsNotForgottenBeforeItsTime) {
    const Quota quota = quota_of(10, milliseconds(10'000), 10);
    const bool is_window =
        GetParam() == Algorithm::fixed_window || GetParam() == Algorithm::sliding_window;
    const Charge charge = ask(quota, 1, "k");
    settle(charge, is_window ? 1'000'000'000 : 1'000);
    const auto wait = ask(quota, 1, "k").verdict.retry_after;
    EXPECT_GE(wait, is_window ? std::chrono::seconds{10} : std::chrono::seconds{900});
    const int64_t begin = clock_.now();
    for (const int64_t part : {3, 2}) { // the key outlives what counts
        clock_.set(begin + wait.count() / part);
        EXPECT_NE(ask(quota, 1, "k").verdict.decision, Decision::granted);
    }
    clock_.set(begin + wait.count() - 1);
    EXPECT_NE(ask(quota, 1, "k").verdict.decision, Decision::granted);
    clock_.set(begin + wait.count());
    EXPECT_EQ(ask(quota, 1, "k").verdict.decision, Decision::granted);
    clock_.move(wait.count() + 60'000'000);
    EXPECT_FALSE(redis_.has("k")) << "nor does it live on";
}

TEST_P(SettlementsTest, NoDebtIsLongerThanTenYears) {
    if (GetParam() == Algorithm::fixed_window || GetParam() == Algorithm::sliding_window) {
        return; // it ends with its windows
    }
    const bool is_log = GetParam() == Algorithm::sliding_log;
    Quota quota = quota_of(1, std::chrono::hours{24 * 366}, 1);
    const Charge charge = ask(quota, 1, "k");
    settle(charge, is_log ? 1'000 : 1'000'000'000);
    settle(charge, is_log ? 1'000 : 1'000'000'000);
    const auto &verdict = ask(quota, 1, "k").verdict;
    EXPECT_EQ(verdict.decision, Decision::denied);
    EXPECT_GE(verdict.retry_after, rate_limit::longest_debt - std::chrono::hours{24 * 366});
    EXPECT_LE(verdict.retry_after, rate_limit::longest_debt + microseconds(quota.window));
}

INSTANTIATE_TEST_SUITE_P(Each, SettlementsTest, testing::ValuesIn(all_but_concurrency),
                         algorithm_name);

} // namespace
} // namespace model
