// Units leased in advance: whatever hosts do with them until the lease ends, no client gets more
// than the rule allows.

#include "charging_test.hpp"
#include "granted.hpp"

#include <algorithm>
#include <vector>

namespace model {
namespace {

/// A lease that a host has.
struct Lease {
    Charge charge;
    int64_t end; // it can be used before
    uint64_t units;
    int64_t window_end; // of a fixed window
};

class LeasesTest : public ChargingTest {
  protected:
    Quota random_quota() {
        const auto limit = static_cast<uint64_t>(traffic_.one_of({16, 40, 64, 200}));
        const milliseconds window(traffic_.one_of({1'000, 1'600, 7'000, 60'000}));
        return quota_of(limit, window, static_cast<uint64_t>(traffic_.one_of({16, 24, 100})));
    }

    Charge lease(Quota quota, uint64_t cost, std::string_view key, microseconds longest,
                 uint64_t wanted) {
        quota.cost = cost;
        Charge charge = leasing_charge_of(quota, aligned_, key, longest, wanted);
        EXPECT_EQ(redis_.check({&charge, 1}), "");
        return charge;
    }

    void give_back(Charge charge, uint64_t units) {
        charge.quota.cost = units;
        charge.receipt = charge.leased.receipt;
        charge.decided = {};
        EXPECT_EQ(redis_.refund(charge), "");
    }
};

/// Only a bucket's state tells when the last lease ends.
class BucketLeasesTest : public LeasesTest {};
/// Only a log has an entry for each unit.
class LogLeasesTest : public LeasesTest {};

TEST_P(LeasesTest, NeverGiveMoreThanTheRule) {
    int leased = 0;
    int used = 0;
    int returned = 0;
    for (int round = 0; round < 150; ++round) {
        const Quota quota = random_quota();
        aligned_ = traffic_.one_in(2);
        const std::string key = "k" + std::to_string(round);
        SCOPED_TRACE(described(quota));
        clock_.set(1'700'000'000'000'000 + traffic_.between(0, 1'000'000'000'000));
        const int64_t fill = quota.refill().count();
        Granted granted(quota, aligned_);
        std::vector<Lease> leases;
        std::vector<Charge> to_refund;
        const auto window_end = [&](const Charge &charge) {
            return clock_.now() + charge.verdict.reset.count();
        };
        Verdict last{.remaining = quota.capacity()};
        const auto random_lease = [&] {
            return leases.begin() + traffic_.between(0, static_cast<int64_t>(leases.size()) - 1);
        };
        for (int step = 0; step < 200; ++step) {
            SCOPED_TRACE(step);
            switch (traffic_.between(0, 9)) {
            case 0:
                clock_.move(traffic_.between(0, fill / 4));
                break;
            case 1:
                clock_.move(traffic_.between(0, fill / static_cast<int64_t>(quota.capacity())));
                break;
            case 2:
                if (!leases.empty()) { // to a lease's end, or the last moment before
                    const int64_t end = random_lease()->end - traffic_.between(0, 1);
                    clock_.set(std::max(clock_.now(), end));
                }
                break;
            case 3:
            case 4: {
                const Charge charge = ask(quota, traffic_.cost(quota, last), key);
                last = charge.verdict;
                const bool has_units = charge.is_charged && charge.quota.cost > 0;
                if (has_units && traffic_.one_in(3)) {
                    to_refund.push_back(charge);
                } else if (has_units) {
                    ASSERT_TRUE(granted.take(charge.quota.cost, clock_.now(), window_end(charge)));
                }
                break;
            }
            case 5:
            case 6: {
                const microseconds longest(fill / traffic_.one_of({4, 4, 16, 64}));
                const auto wanted = static_cast<uint64_t>(traffic_.one_of({1, 2, 5, 1'000}));
                const auto cost = static_cast<uint64_t>(traffic_.between(0, 1));
                const Charge charge = lease(quota, cost, key, longest, wanted);
                last = charge.verdict;
                ASSERT_LE(charge.leased.units, std::min(wanted, quota.capacity() / 8));
                ASSERT_LE(charge.leased.usable_for, longest);
                if (charge.is_charged && cost > 0) {
                    ASSERT_TRUE(granted.take(cost, clock_.now(), window_end(charge)));
                }
                if (charge.leased.units > 0) {
                    Verdict left = ask(quota, 0, key).verdict;
                    left.delay = charge.of_counter.delay; // of the request's own cost
                    ASSERT_EQ(left, charge.of_counter);
                    leases.push_back({charge, clock_.now() + charge.leased.usable_for.count(),
                                      charge.leased.units,
                                      clock_.now() + charge.of_counter.reset.count()});
                    ++leased;
                }
                break;
            }
            case 7:
            case 8:
                if (!leases.empty()) {
                    const auto from = random_lease();
                    const uint64_t units = traffic_.one_in(2) ? from->units : 1;
                    if (clock_.now() < from->end && units > 0 && units <= from->units) {
                        ASSERT_TRUE(granted.take(units, clock_.now(), from->window_end));
                        from->units -= units;
                        ++used;
                    }
                }
                break;
            default:
                if (!leases.empty() && traffic_.one_in(2)) {
                    const auto from = random_lease();
                    if (from->units > 0) {
                        give_back(from->charge, from->units);
                        ++returned;
                    }
                    leases.erase(from);
                } else if (!to_refund.empty()) {
                    EXPECT_EQ(redis_.refund(to_refund.front()), "");
                    to_refund.erase(to_refund.begin());
                }
            }
        }
    }
    EXPECT_GT(leased, 500);
    EXPECT_GT(used, 500);
    EXPECT_GT(returned, 200);
}

TEST_P(LeasesTest, TakeAnEighthOfWhatIsLeft) {
    const Quota quota = quota_of(800, milliseconds(60'000), 800);
    const microseconds second(1'000'000);
    EXPECT_EQ(lease(quota, 1, "k", second, 0).leased.units, 0U);
    EXPECT_EQ(lease(quota, 0, "k", second, 5).leased.units, 5U);
    const Charge most = lease(quota, 2, "k", second, 1'000);
    // Of a bucket, what would come back within the first lease does not: 13 units.
    EXPECT_EQ(most.leased.units, rate_limit::is_bucket(quota.algorithm) ? 97U : 99U);
    EXPECT_EQ(most.leased.usable_for, second);
    while (lease(quota, 0, "k", second, 1'000).leased.units > 0) {
    }
    // The last ones are asked for one by one; what a bucket's lease holds back comes back.
    const uint64_t left = ask(quota, 0, "k").verdict.remaining;
    EXPECT_LT(left, rate_limit::is_bucket(quota.algorithm) ? 22U : 8U);
}

TEST_P(LeasesTest, TakeNothingWhereTheRuleDenies) {
    const Quota quota = quota_of(16, milliseconds(60'000), 16);
    ask(quota, quota.capacity(), "k");
    const State before = redis_.state("k");
    const Charge charge = lease(quota, 1, "k", microseconds(1'000'000), 10);
    EXPECT_FALSE(charge.is_charged);
    EXPECT_EQ(charge.leased.units, 0U);
    EXPECT_EQ(redis_.state("k").dump, before.dump);
}

TEST_P(LeasesTest, ThatGoBackLeaveWhatWasThere) {
    const Quota quota = quota_of(160, milliseconds(60'000), 160);
    ask(quota, 150, "k");
    clock_.move(15'000'000);
    const uint64_t before = ask(quota, 0, "k").verdict.remaining;
    const Charge charge = lease(quota, 0, "k", microseconds(1'000'000), 3);
    const uint64_t leased = charge.leased.units;
    ASSERT_GT(leased, 0U);
    EXPECT_LT(ask(quota, 0, "k").verdict.remaining, before);
    give_back(charge, leased);
    EXPECT_EQ(ask(quota, 0, "k").verdict.remaining, before);
}

// Each check of a batch has a number of units of its own.
TEST_P(LeasesTest, DifferFromCheckToCheckOfABatch) {
    const Quota quota = quota_of(80, milliseconds(60'000), 80);
    const microseconds second(1'000'000);
    const std::string keys[] = {"a", "b", "c", "d"};
    const std::string others[] = {"a2", "b2", "c2", "d2"};
    std::vector<std::vector<Charge>> checks;
    for (uint64_t i = 0; i < 4; ++i) {
        // The first rule's charge, an ordinary one between, and the last rule's.
        checks.push_back({leasing_charge_of(quota, false, keys[i], second, i),
                          charge_of(quota, false, "plain"),
                          leasing_charge_of(quota, false, others[i], second, 2 * i)});
    }
    for (const std::string &error : redis_.check_run(checks)) {
        EXPECT_EQ(error, "");
    }
    for (uint64_t i = 0; i < 4; ++i) {
        EXPECT_TRUE(checks[i][0].is_charged);
        EXPECT_EQ(checks[i][0].leased.units, i);
        EXPECT_EQ(checks[i][1].leased.units, 0U);
        EXPECT_EQ(checks[i][2].leased.units, 2 * i);
        if (!rate_limit::is_bucket(quota.algorithm)) { // of which more is held back
            EXPECT_EQ(ask(quota, 0, keys[i]).verdict.remaining, 80 - 1 - i);
        }
    }
}

// Lua has room for so many local names, and not many more.
TEST_P(LeasesTest, MayBeOfManyRulesOfACheck) {
    const Quota quota = quota_of(80, milliseconds(60'000), 80);
    std::vector<std::string> keys;
    for (size_t i = 0; i < redis_client::most_rules_with_leases; ++i) {
        keys.push_back("k" + std::to_string(i));
    }
    std::vector<Charge> charges;
    for (const std::string &key : keys) {
        charges.push_back(leasing_charge_of(quota, false, key, microseconds(100'000), 2));
    }
    EXPECT_EQ(redis_.check(charges), "");
    std::vector<std::vector<Charge>> checks = {charges, charges};
    EXPECT_EQ(redis_.check_run(checks), std::vector<std::string>(2));
    for (const Charge &charge : checks.back()) {
        EXPECT_TRUE(charge.is_charged);
        EXPECT_EQ(charge.leased.units, 2U);
    }
}

// A key must not vanish while its units count, whoever wrote it last.
TEST_P(LeasesTest, KeepTheirKeyAliveUnderLoad) {
    const Quota quota = quota_of(200, milliseconds(1'000), 200);
    const microseconds longest(250'000);
    for (int i = 0; i < 400; ++i) {
        const Charge charge = i % 3 == 0 ? lease(quota, 1, "k", longest, 4) : ask(quota, 1, "k");
        ASSERT_GE(redis_.time_to_live_ms("k"), charge.verdict.reset.count() / 1'000 + 5'000);
        clock_.move(25'000);
    }
}

// Of the return of one lease while another one is used: a time that goes back behind its end would
// let units through that are leased.
TEST_P(BucketLeasesTest, HoldTheTimeUntilTheLastOneEnds) {
    const int64_t second = 1'000'000;
    Quota quota = quota_of(64, milliseconds(64'000), 64); // a unit each second
    quota.set_capacity(64);
    const microseconds longest(16 * second);
    for (const bool has_longer : {false, true}) {
        SCOPED_TRACE(has_longer);
        redis_.command({"FLUSHALL"});
        const Charge first = lease(quota, 0, "k", longest, 8);
        ASSERT_EQ(first.leased.units, 8U);
        clock_.move(8 * second);
        const Charge used = lease(quota, 0, "k", longest, 6);
        ASSERT_EQ(used.leased.units, 6U);
        if (has_longer) { // its end changes nothing
            ASSERT_EQ(lease(quota, 0, "k", microseconds(second), 1).leased.units, 1U);
        }
        give_back(first, 8);
        clock_.move(16 * second); // until the last lease is all used, just before its end
        const uint64_t left = ask(quota, 0, "k").verdict.remaining;
        EXPECT_LE(used.leased.units + left, quota.capacity());
    }
}

TEST_P(LogLeasesTest, ThatGoBackTooLateAreNotSearchedFor) {
    const Quota quota = quota_of(80, milliseconds(1'000), 0);
    const Charge charge = lease(quota, 1, "k", microseconds(100'000), 4);
    clock_.move(1'100'000);
    give_back(charge, charge.leased.units); // their window has just ended
    EXPECT_EQ(redis_.command({"LLEN", "k"}).number, 5);
}

// The refunds of old releases do not know of leases, and these refuse a state with one.
TEST_P(BucketLeasesTest, MarkTheStateForGood) {
    const auto size = [&] { return redis_.command({"STRLEN", "k"}).number; };
    const Quota quota = quota_of(80, milliseconds(60'000), 80);
    ask(quota, 1, "k");
    EXPECT_EQ(size(), 40);
    lease(quota, 0, "k", microseconds(1'000'000), 0);
    EXPECT_EQ(size(), 40);
    lease(quota, 0, "k", microseconds(1'000'000), 2);
    EXPECT_EQ(size(), 48);
    clock_.move(50'000'000); // so that the expiry is put off by the next one
    ask(quota, 80, "k");
    ask(quota, 5, "k");
    EXPECT_EQ(size(), 48);
}

INSTANTIATE_TEST_SUITE_P(Each, LeasesTest, testing::ValuesIn(all_but_concurrency), algorithm_name);
INSTANTIATE_TEST_SUITE_P(Each, BucketLeasesTest,
                         testing::Values(Algorithm::token_bucket, Algorithm::gcra,
                                         Algorithm::leaky_bucket),
                         algorithm_name);
INSTANTIATE_TEST_SUITE_P(Each, LogLeasesTest, testing::Values(Algorithm::sliding_log),
                         algorithm_name);

} // namespace
} // namespace model
