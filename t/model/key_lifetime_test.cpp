// A key lives while anything in it counts, whoever wrote it last, and for 5 seconds more: whatever
// checks, leases, returns, debts, changed limits and steps of the clock come one after another.
//
// Environment: LIVES_MODEL=long tries many more schedules.

#include "charging_test.hpp"
#include "unit/redis_client/different_bytes.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace model {
namespace {

int schedules() {
    const char *model = std::getenv("LIVES_MODEL");
    return model != nullptr && std::string_view(model) == "long" ? 3'000 : 60;
}

class LivesTest : public ChargingTest {
  protected:
    /// Rules of one counter, whose limits differ.
    void begin(int schedule) {
        key_ = "k" + std::to_string(schedule);
        aligned_ = traffic_.one_in(2);
        const auto limit = static_cast<uint64_t>(traffic_.one_of({1, 3, 20, 100}));
        const milliseconds window(traffic_.one_of({10, 1'000, 20'000, 3'600'000}));
        rules_.clear();
        for (const uint64_t factor : {2, 1, 6}) {
            const uint64_t some = std::max<uint64_t>(limit * factor / 2, 1);
            rules_.push_back(quota_of(some, window, some));
        }
        if (traffic_.one_in(2)) { // they follow each other, as an operator sets them
            for (Quota &rule : rules_) {
                rule.other_limit = rate_limit::OtherLimit::counts_in_units;
            }
        }
        window_us_ = microseconds(window).count();
        clock_.set(1'700'000'000'000'000 + traffic_.between(0, 1'000'000'000'000));
        charged_.clear();
    }

    const Quota &some_rule() { return rules_[static_cast<size_t>(traffic_.between(0, 2))]; }

    int64_t some_step() {
        switch (traffic_.between(0, 11)) {
        case 0:
            return -traffic_.one_of({window_us_ / 3, 2 * window_us_, 3'600'000'000});
        case 1:
            return traffic_.between(0, 3 * window_us_);
        case 2:
        case 3:
            return traffic_.between(0, window_us_);
        default:
            return traffic_.between(0, window_us_ / 8);
        }
    }

    void check() {
        const Quota &rule = some_rule();
        const auto most = static_cast<int64_t>(std::min<uint64_t>(rule.capacity(), 1'000));
        remember(ask(rule, static_cast<uint64_t>(traffic_.between(0, most)), key_));
    }

    void lease() {
        Quota rule = some_rule();
        rule.cost = static_cast<uint64_t>(traffic_.between(0, 1));
        const microseconds longest(rule.refill() / traffic_.one_of({4, 4, 16, 64}));
        Charge charge = leasing_charge_of(rule, aligned_, key_, longest, 1'000);
        EXPECT_EQ(redis_.check({&charge, 1}), "");
        remember(charge);
        if (charge.leased.units > 0) {
            charge.quota.cost = charge.leased.units;
            charge.receipt = charge.leased.receipt;
            charge.decided = {};
            charged_.push_back(charge);
            ++leases_;
        }
    }

    void remember(const Charge &charge) {
        if (charge.is_charged && charge.quota.cost > 0) {
            charged_.push_back(charge);
        }
    }

    /// What was charged turns out to have cost more, or it goes back.
    void settle() {
        if (charged_.empty()) {
            return;
        }
        const auto which = traffic_.between(0, static_cast<int64_t>(charged_.size()) - 1);
        const Charge charge = charged_[static_cast<size_t>(which)];
        const auto cost = static_cast<int64_t>(charge.quota.cost);
        const bool is_debt = traffic_.one_in(2);
        const auto units =
            static_cast<uint64_t>(is_debt ? traffic_.between(1, std::min<int64_t>(30 * cost, 1'000))
                                          : traffic_.between(1, cost));
        const Redis::Settlement settlement{&charge, units};
        EXPECT_EQ(redis_.settle(is_debt ? SettlementKind::debt : SettlementKind::refund,
                                {&settlement, 1}, aligned_),
                  "1");
        if (!is_debt) {
            charged_.erase(charged_.begin() + which);
        }
    }

    /// Goes to where the key has 5 seconds to live, and back.
    void expect_that_nothing_counts_at_its_end() {
        const int64_t time_to_live_ms = redis_.time_to_live_ms(key_);
        ASSERT_NE(time_to_live_ms, -1);
        if (time_to_live_ms == -2) {
            return; // there is no key
        }
        const int64_t now = clock_.now();
        clock_.set(std::max(now, (now / 1'000 + time_to_live_ms - 5'000) * 1'000));
        for (const Quota &rule : rules_) {
            const auto verdict = redis_.peek(rule, aligned_, key_);
            ASSERT_TRUE(verdict.has_value());
            ASSERT_EQ(verdict->reset.count(), 0) << described(rule);
        }
        clock_.set(now);
        ++looks_;
    }

    std::string key_;
    std::vector<Quota> rules_;
    int64_t window_us_ = 0;
    std::vector<Charge> charged_;
    int leases_ = 0;
    int looks_ = 0;
};

TEST_P(LivesTest, NothingThatCountsExpires) {
    for (int schedule = 0; schedule < schedules(); ++schedule) {
        begin(schedule);
        for (int step = 0; step < 60; ++step) {
            SCOPED_TRACE(testing::Message() << "schedule " << schedule << ", step " << step);
            clock_.move(some_step());
            switch (traffic_.between(0, 3)) {
            case 0:
                lease();
                break;
            case 1:
                settle();
                break;
            default:
                check();
            }
            expect_that_nothing_counts_at_its_end();
            if (HasFailure()) {
                return;
            }
        }
    }
    EXPECT_GT(leases_, schedules() / 2);
    EXPECT_GT(looks_, 20 * schedules());
}

INSTANTIATE_TEST_SUITE_P(Each, LivesTest, testing::ValuesIn(all_but_concurrency), algorithm_name);

/// A permit counts for a window from when it was taken or renewed. The host of a request in flight
/// measures that by a clock that does not step, so this is the time that counts here. By the clock
/// of Redis a permit may count for longer, if that one stepped back; nobody needs it then.
class PermitLivesTest : public testing::Test {
  protected:
    struct Held {
        Permit *permit;
        int64_t counts_until; // in time that has passed
    };

    void move(int64_t by) {
        clock_.move(by);
        passed_ += std::max<int64_t>(by, 0);
    }

    void take(uint64_t limit) {
        Quota quota;
        quota.algorithm = Algorithm::concurrency;
        quota.limit = limit;
        quota.window = window_;
        quota.cost = static_cast<uint64_t>(traffic_.between(1, 2));
        Charge charge =
            charge_of(quota, false, key_, permits_.make(key_, quota.cost, quota.window));
        EXPECT_EQ(redis_.check({&charge, 1}), "");
        if (charge.is_charged) {
            held_.push_back({charge.permit, passed_ + microseconds(window_).count()});
        }
    }

    void release_or_renew() {
        if (held_.empty()) {
            return;
        }
        const auto which =
            held_.begin() + traffic_.between(0, static_cast<int64_t>(held_.size()) - 1);
        if (traffic_.one_in(2)) {
            EXPECT_EQ(redis_.release(*which->permit), "");
            held_.erase(which);
        } else {
            Permit *const permit = which->permit;
            EXPECT_EQ(redis_.renew({&permit, 1}), "");
            which->counts_until = passed_ + microseconds(window_).count();
        }
    }

    /// The permits of hosts that died fall free.
    void forget_the_lapsed() {
        std::erase_if(held_, [&](const Held &held) { return held.counts_until <= passed_; });
    }

    void expect_that_all_is_over_at_its_end() {
        const int64_t time_to_live_ms = redis_.time_to_live_ms(key_);
        ASSERT_NE(time_to_live_ms, -1);
        const int64_t end = (clock_.now() / 1'000 + time_to_live_ms - 5'000) * 1'000;
        for (const Held &held : held_) {
            ASSERT_LE(held.counts_until, passed_ + end - clock_.now());
        }
    }

    Redis redis_;
    Clock clock_;
    Traffic traffic_;
    redis_client::ObjectPool<Permit> pool_;
    redis_client::Permits permits_{pool_, redis_client::different_bytes};
    std::string key_;
    milliseconds window_{0};
    int64_t passed_ = 0;
    std::vector<Held> held_;
};

TEST_F(PermitLivesTest, NothingThatCountsExpires) {
    for (int schedule = 0; schedule < schedules(); ++schedule) {
        key_ = "k" + std::to_string(schedule);
        window_ = milliseconds(traffic_.one_of({10, 1'000, 60'000}));
        const int64_t window_us = microseconds(window_).count();
        held_.clear();
        clock_.set(1'700'000'000'000'000 + traffic_.between(0, 1'000'000'000'000));
        for (int step = 0; step < 60; ++step) {
            SCOPED_TRACE(testing::Message() << "schedule " << schedule << ", step " << step);
            move(traffic_.one_in(12) ? -traffic_.one_of({window_us / 3, 3'600'000'000})
                                     : traffic_.between(0, window_us / 4));
            forget_the_lapsed();
            if (traffic_.one_in(2)) {
                take(static_cast<uint64_t>(traffic_.one_of({3, 10})));
            } else {
                release_or_renew();
            }
            expect_that_all_is_over_at_its_end();
            if (HasFailure()) {
                return;
            }
        }
    }
}

} // namespace
} // namespace model
