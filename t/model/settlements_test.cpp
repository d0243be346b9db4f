// What requests turn out to cost when they end: the counters are those of models that know the
// final costs, whenever they are told.

#include "charging_test.hpp"
#include "unit/algorithms.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <vector>

namespace model {
namespace {

using rate_limit::Algorithm;
using rate_limit::Quota;
using redis_client::Charge;
using redis_client::SettlementKind;
using std::chrono::microseconds;
using std::chrono::milliseconds;

__extension__ using Wide = __int128;

constexpr int64_t furthest = microseconds(rate_limit::longest_debt).count();

/// A counter in whole microseconds. The quota has a whole number of them for each unit of a bucket.
class Counter {
  public:
    explicit Counter(const Quota &quota)
        : limit(static_cast<int64_t>(quota.limit)),
          window(microseconds(quota.window).count()),
          capacity(static_cast<int64_t>(quota.capacity())) {}
    virtual ~Counter() = default;

    virtual bool fits(int64_t now, int64_t units) = 0;
    /// Charges units, above the limit, too. Returns what a return of them refers to.
    virtual int64_t charge(int64_t now, int64_t units) = 0;
    virtual void give_back(int64_t now, int64_t units, int64_t charged) = 0;

  protected:
    int64_t limit, window, capacity;
};

class FixedWindow : public Counter {
  public:
    FixedWindow(const Quota &quota, bool aligned) : Counter(quota), aligned_(aligned) {}
    bool fits(int64_t now, int64_t units) override {
        return (now < end_ ? taken_ : 0) + units <= limit;
    }
    int64_t charge(int64_t now, int64_t units) override {
        if (now >= end_ || taken_ == 0) {
            end_ = aligned_ ? now - now % window + window : now + window;
            taken_ = 0;
        }
        taken_ += units;
        return end_;
    }
    void give_back(int64_t now, int64_t units, int64_t charged) override {
        if (now < end_ && charged == end_) {
            taken_ -= units;
        }
    }

  private:
    bool aligned_;
    int64_t end_ = 0, taken_ = 0;
};

class SlidingWindow : public Counter {
  public:
    using Counter::Counter;
    bool fits(int64_t now, int64_t units) override {
        const int64_t number = now / window;
        const Wide overlap = window - now % window;
        return Wide{taken_[number - 1]} * overlap + Wide{taken_[number] + units} * window <=
               Wide{limit} * window;
    }
    int64_t charge(int64_t now, int64_t units) override {
        taken_[now / window] += units;
        return now / window;
    }
    void give_back(int64_t /*now*/, int64_t units, int64_t charged) override {
        taken_[charged] -= units;
    }

  private:
    std::map<int64_t, int64_t> taken_;
};

class SlidingLog : public Counter {
  public:
    using Counter::Counter;
    bool fits(int64_t now, int64_t units) override { return counting(now) + units <= limit; }
    int64_t charge(int64_t now, int64_t units) override {
        forget(now);
        int64_t entry = now;
        for (int64_t i = 0; i < units; ++i) {
            entry = std::max(entry, entries_.empty() ? now : entries_.back());
            const auto count = static_cast<int64_t>(entries_.size());
            if (count >= limit) { // worked off as fast as the rule grants
                entry =
                    std::max(entry, std::min(entries_[static_cast<size_t>(count - limit)] + window,
                                             now + furthest));
            }
            entries_.push_back(entry);
        }
        return entry;
    }
    void give_back(int64_t /*now*/, int64_t units, int64_t charged) override {
        for (; units > 0; --units) {
            const auto last = std::find(entries_.rbegin(), entries_.rend(), charged);
            if (last == entries_.rend()) {
                return;
            }
            entries_.erase(std::next(last).base());
        }
    }

  private:
    void forget(int64_t now) {
        while (!entries_.empty() && entries_.front() <= now - window) {
            entries_.pop_front();
        }
    }
    int64_t counting(int64_t now) const {
        return std::ranges::count_if(entries_, [&](int64_t entry) { return entry > now - window; });
    }

    std::deque<int64_t> entries_;
};

class Bucket : public Counter {
  public:
    explicit Bucket(const Quota &quota) : Counter(quota), interval_(window / limit) {}
    bool fits(int64_t now, int64_t units) override {
        return std::max(full_, now) + units * interval_ <= now + capacity * interval_;
    }
    int64_t charge(int64_t now, int64_t units) override {
        const int64_t from = std::max(full_, now);
        const int64_t most = std::max(from, now + furthest);
        full_ = static_cast<int64_t>(std::min<Wide>(from + Wide{units} * interval_, most));
        return full_ + given_back_;
    }
    void give_back(int64_t now, int64_t units, int64_t charged) override {
        const int64_t still_taken = std::max<int64_t>(charged - given_back_ - now, 0);
        const int64_t back = std::min(still_taken, units * interval_);
        full_ -= back;
        given_back_ += back;
    }

  private:
    int64_t interval_;
    int64_t full_ = 0; // when all units are there
    int64_t given_back_ = 0;
};

std::unique_ptr<Counter> counter_of(const Quota &quota, bool aligned) {
    switch (quota.algorithm) {
    case Algorithm::fixed_window:
        return std::make_unique<FixedWindow>(quota, aligned);
    case Algorithm::sliding_window:
        return std::make_unique<SlidingWindow>(quota);
    case Algorithm::sliding_log:
        return std::make_unique<SlidingLog>(quota);
    default:
        return std::make_unique<Bucket>(quota);
    }
}

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
struct InFlight {
    Charge charge;
    int64_t reserved;
    int64_t charged; // what the model's return refers to
};

TEST_P(SettlementsTest, AreThoseOfTheModel) {
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
        const auto model = counter_of(base, aligned_);
        const std::string key = "k" + std::to_string(round);
        const int64_t window = microseconds(base.window).count();
        std::vector<InFlight> in_flight;
        for (int step = 0; step < 120; ++step) {
            clock_.move(traffic_.one_in(8) ? traffic_.between(0, 3 * window)
                                           : traffic_.between(0, window / 5));
            if (!in_flight.empty() && traffic_.one_in(2)) {
                const auto which = static_cast<size_t>(
                    traffic_.between(0, static_cast<int64_t>(in_flight.size()) - 1));
                const InFlight ended = in_flight[which];
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
            ASSERT_EQ(charge.verdict.decision == rate_limit::Decision::granted, fits)
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
    EXPECT_EQ(redis_.settle(SettlementKind::debt, settlements, false), "101") << "each by itself";
    EXPECT_EQ(redis_.settle(SettlementKind::refund, settlements, false), "101");
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
        EXPECT_NE(ask(quota, 1, "k").verdict.decision, rate_limit::Decision::granted);
    }
    clock_.set(begin + wait.count() - 1);
    EXPECT_NE(ask(quota, 1, "k").verdict.decision, rate_limit::Decision::granted);
    clock_.set(begin + wait.count());
    EXPECT_EQ(ask(quota, 1, "k").verdict.decision, rate_limit::Decision::granted);
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
    EXPECT_EQ(verdict.decision, rate_limit::Decision::denied);
    EXPECT_GE(verdict.retry_after, rate_limit::longest_debt - std::chrono::hours{24 * 366});
    EXPECT_LE(verdict.retry_after, rate_limit::longest_debt + microseconds(quota.window));
}

INSTANTIATE_TEST_SUITE_P(Each, SettlementsTest, testing::ValuesIn(rate_limit::all_but_concurrency),
                         [](const auto &info) {
                             return std::string(rate_limit::to_string(info.param));
                         });

} // namespace
} // namespace model
