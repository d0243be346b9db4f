// The plain rules by which t/protocol explores leases decide as the scripts do.

#include "model_test.hpp"

#include "protocol/rules.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace model {
namespace {

using protocol::Numbers;
using protocol::Units;

constexpr int64_t tick_us = 10'000; // so short that no key expires meanwhile

Quota quota_of(const Numbers &numbers) {
    const auto capacity = static_cast<uint64_t>(numbers.capacity);
    Quota quota;
    quota.algorithm = numbers.algorithm;
    quota.limit = capacity;
    quota.window = milliseconds(numbers.window * tick_us / 1'000);
    if (rate_limit::is_bucket(numbers.algorithm)) {
        quota.window *= numbers.capacity;
        quota.set_capacity(capacity);
    }
    return quota;
}

/// Units that were charged both in Redis and by the plain rule.
struct Charged {
    Charge charge;
    Units units;
    protocol::Time receipt; // by the plain rule
};

class LeaseRulesTest : public testing::TestWithParam<Numbers> {
  protected:
    void begin(const std::string &key) {
        key_ = key;
        quota_ = quota_of(GetParam());
        const int64_t window_us = microseconds(quota_.window).count();
        clock_.set(1'700'000'000'000'000 / window_us * window_us);
        kept_ = {};
        moved_back_us_.reset();
        charged_.clear();
    }

    void let_a_tick_pass() {
        clock_.move(tick_us);
        protocol::Granted granted{};
        rule_->pass(kept_, granted);
        for (Charged &charged : charged_) {
            charged.receipt = std::max<protocol::Time>(charged.receipt - 1, protocol::over);
        }
    }

    /// How many units the plain rule would grant now.
    uint64_t left() const {
        protocol::Key kept = kept_;
        uint64_t units = 0;
        while (rule_->charge(kept)) {
            ++units;
        }
        return units;
    }

    void charge_one() {
        Charge charge = charge_of(quota_, GetParam().aligned, key_);
        ASSERT_EQ(redis_.check({&charge, 1}), "");
        ASSERT_EQ(charge.is_charged, rule_->charge(kept_));
        if (charge.is_charged) {
            expect_receipt(charge.receipt, rule_->receipt(kept_));
            charged_.push_back({charge, 1, rule_->receipt(kept_)});
        }
    }

    void lease(uint64_t wanted, int ticks) {
        Quota quota = quota_;
        quota.cost = 0;
        Charge charge = leasing_charge_of(quota, GetParam().aligned, key_,
                                          microseconds(ticks * tick_us), wanted);
        ASSERT_EQ(redis_.check({&charge, 1}), "");
        ASSERT_EQ(charge.leased.units, std::min(wanted, left() / 8));
        if (charge.leased.units == 0) {
            return;
        }
        const auto leased = rule_->lease(kept_, static_cast<Units>(charge.leased.units),
                                         static_cast<protocol::Time>(ticks));
        ASSERT_EQ(leased.units, charge.leased.units);
        ASSERT_EQ(leased.usable_for * tick_us, charge.leased.usable_for.count());
        expect_receipt(charge.leased.receipt, leased.receipt);
        charge.receipt = charge.leased.receipt;
        charge.decided = {};
        charge.is_charged = true;
        charged_.push_back({charge, leased.units, leased.receipt});
        ++leases_;
    }

    void give_back(size_t index) {
        Charged charged = charged_[index];
        charged_.erase(charged_.begin() + static_cast<int64_t>(index));
        charged.charge.decided = {}; // the plain rule knows nothing of the past
        charged.charge.quota.cost = static_cast<uint64_t>(charged.units);
        ASSERT_EQ(redis_.refund(charged.charge), "");
        rule_->give_back(kept_, charged.units, charged.receipt);
        const protocol::Time by = std::exchange(kept_.moved_back, protocol::Time{0});
        moved_back_us_ = *moved_back_us_ + by * tick_us;
        for (Charged &other : charged_) {
            other.receipt = std::max<protocol::Time>(other.receipt - by, protocol::over);
        }
        ++returns_;
    }

    void expect_same_left() {
        Quota quota = quota_;
        quota.cost = 0;
        Charge charge = charge_of(quota, GetParam().aligned, key_);
        ASSERT_EQ(redis_.check({&charge, 1}), "");
        ASSERT_EQ(charge.verdict.remaining, left());
    }

    /// The plain rule counts times from now, and from how far returns have moved them back. Where
    /// a bucket begins to count that, only Redis knows. Of windows the plain rule names the end or
    /// the start, and Redis a moment between.
    void expect_receipt(int64_t of_redis, protocol::Time plain) {
        const int64_t ahead_us = of_redis - clock_.now() - plain * tick_us;
        const int64_t window_us = microseconds(quota_.window).count();
        if (quota_.algorithm == Algorithm::fixed_window) {
            ASSERT_GE(ahead_us, -window_us);
            ASSERT_LT(ahead_us, 0);
            return;
        }
        if (quota_.algorithm == Algorithm::sliding_window) {
            ASSERT_GE(ahead_us, 0);
            ASSERT_LT(ahead_us, window_us);
            return;
        }
        if (!moved_back_us_) {
            moved_back_us_ = rate_limit::is_bucket(quota_.algorithm) ? ahead_us : 0;
        }
        ASSERT_EQ(ahead_us, *moved_back_us_);
    }

    Redis redis_;
    Clock clock_;
    Traffic traffic_;
    std::unique_ptr<protocol::Rule> rule_ = rule_of(GetParam(), protocol::Flaw::none);
    std::string key_;
    Quota quota_;
    protocol::Key kept_{};
    std::optional<int64_t> moved_back_us_;
    std::vector<Charged> charged_;
    int leases_ = 0;
    int returns_ = 0;
};

TEST_P(LeaseRulesTest, DecideAsTheScriptsDo) {
    for (int round = 0; round < 40; ++round) {
        begin("k" + std::to_string(round));
        for (int step = 0; step < 100; ++step) {
            SCOPED_TRACE(testing::Message() << "round " << round << ", step " << step);
            switch (traffic_.between(0, 7)) {
            case 0:
            case 1:
                let_a_tick_pass();
                break;
            case 2:
            case 3:
            case 4:
                charge_one();
                break;
            case 5:
            case 6:
                lease(static_cast<uint64_t>(traffic_.between(1, 4)),
                      static_cast<int>(traffic_.between(1, GetParam().lease)));
                break;
            default:
                if (!charged_.empty()) {
                    give_back(static_cast<size_t>(
                        traffic_.between(0, static_cast<int64_t>(charged_.size()) - 1)));
                }
            }
            if (!HasFailure()) {
                expect_same_left();
            }
            if (HasFailure()) {
                return;
            }
        }
    }
    EXPECT_GT(leases_, 200);
    EXPECT_GT(returns_, 200);
}

INSTANTIATE_TEST_SUITE_P(Each, LeaseRulesTest,
                         testing::Values(Numbers{Algorithm::sliding_log, 24, 5, 3},
                                         Numbers{Algorithm::fixed_window, 24, 6, 3},
                                         Numbers{Algorithm::fixed_window, 24, 6, 3, true},
                                         Numbers{Algorithm::sliding_window, 24, 6, 3},
                                         Numbers{Algorithm::gcra, 24, 1, 3},
                                         Numbers{Algorithm::token_bucket, 20, 3, 4}),
                         [](const auto &info) {
                             return std::string(rate_limit::to_string(info.param.algorithm)) +
                                    (info.param.aligned ? "_aligned" : "");
                         });

} // namespace
} // namespace model
