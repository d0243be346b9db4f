// Buckets whose limit changes: units taken stay units taken, by whichever limit the next check
// asks. Where rules of different limits share a bucket, what is taken stays a time.

#include "charging_test.hpp"

#include <algorithm>
#include <vector>

namespace model {
namespace {

using rate_limit::OtherLimit;

__extension__ using Wide = __int128;

/// Units that are missing, in window-ths, of which `limit` come back in a microsecond.
class MissingUnits {
  public:
    /// A check asks by these numbers: until now units came back by the last ones.
    void look(const Quota &quota, int64_t now) {
        missing_ = std::max<Wide>(missing_ - Wide{now - last_} * limit_, 0);
        last_ = now;
        limit_ = quota.limit;
    }
    bool fits(const Quota &quota, uint64_t units) const {
        return missing_ + Wide{units} * unit(quota) <= Wide{quota.capacity()} * unit(quota);
    }
    void take(const Quota &quota, uint64_t units) { missing_ += Wide{units} * unit(quota); }
    int64_t remaining(const Quota &quota) const {
        const Wide left = Wide{quota.capacity()} * unit(quota) - missing_;
        return static_cast<int64_t>(std::max<Wide>(left, 0) / unit(quota));
    }
    int64_t reset() const { return static_cast<int64_t>((missing_ + limit_ - 1) / limit_); }

  private:
    static Wide unit(const Quota &quota) { return microseconds(quota.window).count(); }

    Wide missing_ = 0;
    Wide limit_ = 1;
    int64_t last_ = 0;
};

class OtherLimitsTest : public ChargingTest {
  protected:
    static Quota limit_of(uint64_t limit, uint64_t capacity,
                          OtherLimit other = OtherLimit::counts_in_units) {
        Quota quota = quota_of(limit, milliseconds(60'000), 1);
        quota.set_capacity(capacity);
        quota.other_limit = other;
        return quota;
    }

    Quota any_limit() {
        const auto limit = static_cast<uint64_t>(
            traffic_.one_of({1, 3, 4, 7, 400, 4'000, 77'777, traffic_.between(1, 1'000'000'000)}));
        return limit_of(limit, static_cast<uint64_t>(traffic_.one_of({1, 4, 100, 1'000})));
    }

    void settle(SettlementKind kind, const Charge &charge, uint64_t units) {
        const Redis::Settlement settlement{&charge, units};
        EXPECT_EQ(redis_.settle(kind, {&settlement, 1}, false), "1");
    }

    /// What is left, and that the key outlives what is taken.
    uint64_t remaining(const Quota &quota, std::string_view key) {
        const auto verdict = ask(quota, 0, key).verdict;
        if (verdict.reset.count() > 0) {
            EXPECT_GE(redis_.time_to_live_ms(key), verdict.reset.count() / 1000 + 5000);
        }
        return verdict.remaining;
    }
};

TEST_P(OtherLimitsTest, LeaveAsManyUnitsTakenAtEveryFill) {
    for (const auto &[from, to] : {std::pair{400, 4}, {4, 4'000}, {7, 3}, {1, 1'000'000'000}}) {
        for (uint64_t taken = 1; taken <= 100; ++taken) {
            const std::string key = std::to_string(to) + " " + std::to_string(taken);
            const Quota before = limit_of(static_cast<uint64_t>(from), 100);
            const Quota after = limit_of(static_cast<uint64_t>(to), 100);
            ask(before, taken, key);
            const auto verdict = ask(after, 0, key).verdict;
            ASSERT_EQ(verdict.remaining, 100 - taken) << key;
            const auto units = static_cast<int64_t>(taken);
            ASSERT_EQ(verdict.reset.count(), (units * minute + to - 1) / to) << key;
            ASSERT_EQ(ask(after, 101 - taken, key).verdict.decision, Decision::denied) << key;
            ASSERT_EQ(remaining(after, key), 100 - taken) << key;
        }
    }
}

TEST_P(OtherLimitsTest, LetUnitsComeBackAtTheNewPaceAlsoAfterADenial) {
    const Quota slow = limit_of(4, 100);
    const Quota fast = limit_of(4'000, 100);
    ask(slow, 100, "raised");
    for (int i = 0; i < 10; ++i) {
        EXPECT_EQ(ask(fast, "raised").verdict.retry_after.count(), 15'000 - i);
        clock_.move(1);
    }
    clock_.move(15'000 - 10);
    EXPECT_TRUE(ask(fast, "raised").is_charged);

    ask(limit_of(400, 100), 100, "braked");
    EXPECT_EQ(ask(slow, "braked").verdict.retry_after.count(), 15'000'000);
    clock_.move(200'000'000); // long after the key would have expired
    EXPECT_EQ(remaining(slow, "braked"), 13U);
}

TEST_P(OtherLimitsTest, ConvertToAndFroWithoutLoss) {
    int denied = 0;
    int granted = 0;
    for (int round = 0; round < 60; ++round) {
        const std::string key = "k" + std::to_string(round);
        std::vector<Quota> hosts = {any_limit(), any_limit(), any_limit()};
        MissingUnits model;
        clock_.set(1'700'000'000'000'000 + traffic_.between(0, 1'000'000'000'000));
        for (int step = 0; step < 100; ++step) {
            Quota quota = hosts[static_cast<size_t>(traffic_.between(0, 2))];
            clock_.move(traffic_.one_of(
                {0, 1, traffic_.between(0, 1'000),
                 traffic_.between(0, 100 * minute) / static_cast<int64_t>(quota.limit)}));
            model.look(quota, clock_.now());
            quota.cost = static_cast<uint64_t>(
                traffic_.one_of({0, 1, model.remaining(quota), model.remaining(quota) + 1}));
            SCOPED_TRACE(described(quota) + ", step " + std::to_string(step));
            const auto peeked = redis_.peek(quota, false, key);
            const Charge charge = ask(quota, key);
            const bool fits = model.fits(quota, quota.cost);
            ASSERT_EQ(charge.verdict.decision == Decision::granted, fits);
            if (fits) {
                model.take(quota, quota.cost);
            }
            ++(fits ? granted : denied);
            ASSERT_EQ(static_cast<int64_t>(charge.verdict.remaining), model.remaining(quota));
            ASSERT_EQ(charge.verdict.reset.count(), model.reset());
            ASSERT_TRUE(peeked);
            ASSERT_EQ(peeked->decision, charge.verdict.decision);
            ASSERT_EQ(peeked->retry_after, charge.verdict.retry_after);
            if (model.reset() > 0) {
                ASSERT_GE(redis_.time_to_live_ms(key), model.reset() / 1000 + 5000);
            }
        }
    }
    EXPECT_GT(granted, 500);
    EXPECT_GT(denied, 500);
}

TEST_P(OtherLimitsTest, AreNotChangedByAPeek) {
    ask(limit_of(400, 100), 60, "k");
    const State before = redis_.state("k");
    EXPECT_EQ(redis_.peek(limit_of(4, 100), false, "k")->remaining, 40U);
    const Quota in_time = limit_of(4, 100, OtherLimit::counts_in_time);
    EXPECT_EQ(redis_.peek(in_time, false, "k")->remaining, 40U);
    EXPECT_EQ(redis_.state("k"), before);
}

// A request of a counter's rule of 4 a minute and one of 400, at the same time.
TEST_P(OtherLimitsTest, OfRulesThatShareABucketDoNotRefillIt) {
    const Quota slow = limit_of(4, 4, OtherLimit::counts_in_time);
    const Quota fast = limit_of(400, 1'000, OtherLimit::counts_in_time);
    ask(slow, 4, "k");
    EXPECT_TRUE(ask(fast, 1, "k").is_charged);
    clock_.move(750'000);
    for (int i = 0; i < 4; ++i) {
        EXPECT_FALSE(ask(slow, 1, "k").is_charged);
    }
    EXPECT_EQ(ask(slow, 0, "k").verdict.reset.count(), 60'150'000 - 750'000);
}

// An operator's number may hold for rules that have their limits of variables: their bucket counts
// in time before and after, and on hosts that have not heard of it.
TEST_P(OtherLimitsTest, OfAnOperatorConvertABucketThatCountsInTime) {
    const Quota plan = limit_of(60, 60, OtherLimit::counts_in_time);
    const Quota raised = limit_of(6'000, 6'000);
    ask(plan, 10, "set");
    EXPECT_EQ(remaining(raised, "set"), 5'990U);
    EXPECT_EQ(remaining(plan, "set"), 50U) << "removed";

    uint64_t granted = 0;
    for (int round = 0; round < 5; ++round) {
        granted += ask(raised, 5'000, "to and fro").is_charged ? 5'000 : 0;
        granted += ask(plan, 1, "to and fro").is_charged ? 1 : 0;
    }
    EXPECT_EQ(granted, 5'000U);
    EXPECT_EQ(remaining(raised, "to and fro"), 1'000U);

    const Quota brake = limit_of(6, 6);
    ask(plan, 30, "lifted");
    EXPECT_FALSE(ask(brake, 1, "lifted").is_charged);
    EXPECT_EQ(remaining(plan, "lifted"), 30U);
}

TEST_P(OtherLimitsTest, OfAnOperatorStayThoughADebtCountsInTime) {
    const Quota plan = limit_of(10, 10, OtherLimit::counts_in_time);
    const Quota raised = limit_of(1'000, 1'000);
    const Charge charge = ask(plan, 1, "k");
    ask(raised, 900, "k");
    settle(SettlementKind::debt, charge, 1);
    clock_.move(60'000); // a unit by the new limit, a hundredth by the old one
    EXPECT_EQ(remaining(raised, "k"), 99U);
}

// The next check converts from the limit by which units came back.
TEST_P(OtherLimitsTest, OfADebtLeaveThatOfTheLastCheck) {
    const Quota slow = limit_of(10, 10, OtherLimit::counts_in_time);
    const Quota fast = limit_of(6'000, 6'000, OtherLimit::counts_in_time);
    const Charge charge = ask(slow, 1, "k"); // 6 s
    ask(fast, 3'000, "k");                   // 30 s
    settle(SettlementKind::debt, charge, 1); // 6 s
    EXPECT_EQ(remaining(fast, "k"), 1'800U);
    EXPECT_EQ(remaining(limit_of(6'000, 6'000), "k"), 1'800U);
    EXPECT_EQ(remaining(limit_of(60, 6'000), "k"), 1'800U);
}

TEST_P(OtherLimitsTest, KeepADebtToTenYears) {
    const Charge charge = ask(limit_of(400, 100), 1, "k");
    settle(SettlementKind::debt, charge, 999);
    const Quota slow = limit_of(4, 100);
    EXPECT_EQ(ask(slow, 0, "k").verdict.reset.count(), 1'000 * minute / 4);
    EXPECT_EQ(remaining(limit_of(4'000, 100), "k"), 0U);
    EXPECT_EQ(remaining(slow, "k"), 0U);
    settle(SettlementKind::debt, charge, 100'000'000);
    EXPECT_EQ(ask(limit_of(1, 1), 0, "k").verdict.reset, rate_limit::longest_debt);
}

// A request that was charged before the limit changed ends after it.
TEST_P(OtherLimitsTest, DoNotComeBackWithADebt) {
    const Quota fast = limit_of(400, 100);
    const Quota slow = limit_of(4, 100);
    const Charge braked = ask(fast, 50, "braked");
    ask(slow, 0, "braked");
    settle(SettlementKind::debt, braked, 10);
    clock_.move(6'000'000); // 40 units by the old limit
    EXPECT_EQ(remaining(slow, "braked"), 40U);

    const Charge raised = ask(slow, 50, "raised");
    ask(fast, 0, "raised");
    settle(SettlementKind::debt, raised, 10);
    clock_.move(6'000'000);
    EXPECT_EQ(remaining(fast, "raised"), 80U);
}

TEST_P(OtherLimitsTest, OfARefundGiveBackAsManyUnitsAsStillAre) {
    const Quota fast = limit_of(400, 100);
    const Quota slow = limit_of(4, 100);
    ask(fast, 20, "braked");
    const Charge first = ask(fast, 30, "braked");
    ask(slow, 0, "braked");
    EXPECT_EQ(redis_.refund(first), "");
    EXPECT_EQ(remaining(slow, "braked"), 79U) << "less a microsecond";

    const Charge second = ask(slow, 30, "raised");
    ask(fast, 0, "raised");
    EXPECT_EQ(remaining(fast, "raised"), 70U);
    EXPECT_EQ(redis_.refund(second), "");
    EXPECT_EQ(remaining(fast, "raised"), 99U) << "less two microseconds";
}

// Random hosts of different limits, of whose charges some are given back, and some leases.
TEST_P(OtherLimitsTest, NeverGiveMoreBackThanWasTaken) {
    int refunded = 0;
    int used = 0;
    for (int round = 0; round < 80; ++round) {
        const std::string key = "k" + std::to_string(round);
        const auto capacity = static_cast<uint64_t>(traffic_.one_of({16, 100}));
        std::vector<Quota> hosts;
        for (int i = 0; i < 2; ++i) {
            hosts.push_back(
                limit_of(static_cast<uint64_t>(traffic_.one_of({4, 60, 400, 4'001})), capacity));
        }
        clock_.set(1'700'000'000'000'000 + traffic_.between(0, 1'000'000'000'000));
        MissingUnits kept; // of what is never given back
        std::vector<Charge> to_refund;
        struct Lease {
            Charge charge;
            int64_t end;
            uint64_t units;
        };
        std::vector<Lease> leases;
        Quota quota = hosts[0];
        for (int step = 0; step < 120; ++step) {
            if (traffic_.one_in(4)) {
                quota = hosts[static_cast<size_t>(traffic_.between(0, 1))];
            }
            SCOPED_TRACE(described(quota) + ", step " + std::to_string(step));
            const int64_t interval = minute / static_cast<int64_t>(quota.limit);
            clock_.move(traffic_.one_of(
                {0, 1, traffic_.between(0, interval), traffic_.between(0, 20 * interval)}));
            if (!redis_.has(key)) {
                to_refund.clear(); // a check ends long before its key's 5 s do
            }
            if (!to_refund.empty() && traffic_.one_in(3)) {
                const auto which = to_refund.begin() +
                                   traffic_.between(0, static_cast<int64_t>(to_refund.size()) - 1);
                EXPECT_EQ(redis_.refund(*which), "");
                to_refund.erase(which);
                ++refunded;
            }
            if (!leases.empty() && traffic_.one_in(2)) {
                Lease &lease = leases.front();
                if (clock_.now() < lease.end && traffic_.one_in(2)) {
                    kept.take(quota, 1);
                    ++used;
                    --lease.units;
                } else {
                    lease.charge.quota.cost = lease.units;
                    lease.charge.receipt = lease.charge.leased.receipt;
                    lease.charge.decided = {};
                    EXPECT_EQ(redis_.refund(lease.charge), "");
                    lease.units = 0;
                }
                if (lease.units == 0) {
                    leases.erase(leases.begin());
                }
            }
            Charge charge;
            if (traffic_.one_in(6)) {
                charge = leasing_charge_of(quota, false, key, quota.refill() / 16, 3);
                EXPECT_EQ(redis_.check({&charge, 1}), "");
            } else {
                charge = ask(quota, static_cast<uint64_t>(traffic_.one_of({0, 1, 2, 5})), key);
            }
            kept.look(quota, clock_.now());
            if (charge.leased.units > 0) {
                leases.push_back(
                    {charge, clock_.now() + charge.leased.usable_for.count(), charge.leased.units});
            }
            if (charge.is_charged && charge.quota.cost > 0) {
                const uint64_t stays = static_cast<uint64_t>(
                    traffic_.between(0, static_cast<int64_t>(charge.quota.cost)));
                kept.take(quota, stays);
                charge.quota.cost -= stays;
                if (charge.quota.cost > 0) {
                    to_refund.push_back(charge);
                }
            }
            const uint64_t left = ask(quota, 0, key).verdict.remaining;
            uint64_t held = 0;
            for (const Lease &lease : leases) {
                held += clock_.now() < lease.end ? lease.units : 0;
            }
            ASSERT_LE(static_cast<int64_t>(left + held), kept.remaining(quota));
        }
    }
    EXPECT_GT(refunded, 300);
    EXPECT_GT(used, 100);
}

// Versions to 0.2.0 kept a fraction's divisor where the mark is now: their states count in time.
TEST_P(OtherLimitsTest, AreNotKnownOfAStateOfAnEarlierVersion) {
    const double state[] = {static_cast<double>(clock_.now() + minute), 1, 7, 0,
                            static_cast<double>(clock_.now() + minute)};
    redis_.command(
        {"SET", "k", {reinterpret_cast<const char *>(state), sizeof(state)}, "EX", "90"});
    EXPECT_EQ(ask(limit_of(4, 100), 0, "k").verdict.reset.count(), minute + 1);
    EXPECT_EQ(ask(limit_of(4, 100), 1, "k").verdict.reset.count(), minute + 1 + 15'000'000);
    EXPECT_EQ(ask(limit_of(400, 100), 0, "k").verdict.remaining, 94U) << "now it is known";
}

INSTANTIATE_TEST_SUITE_P(Each, OtherLimitsTest,
                         testing::Values(Algorithm::token_bucket, Algorithm::gcra,
                                         Algorithm::leaky_bucket),
                         algorithm_name);

} // namespace
} // namespace model
