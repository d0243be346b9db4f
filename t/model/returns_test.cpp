// What buckets give back, in whatever order it comes: what was reserved and has not come back of
// itself since. At any time the counter is as if each request had cost from the start what it has
// kept by then.

#include "embedded_bucket.hpp"
#include "model_test.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>
#include <vector>

namespace model {
namespace {

/// A unit comes back each second, or in so many parts of one.
Quota seconds(uint64_t capacity, uint64_t parts = 1) {
    return {.algorithm = Algorithm::token_bucket,
            .window = milliseconds(60'000),
            .limit = 60 * parts,
            .burst = capacity * parts,
            .other_limit = rate_limit::OtherLimit::counts_in_time};
}

int64_t time_of(const Quota &quota, uint64_t units) {
    return static_cast<int64_t>(units) * (minute / static_cast<int64_t>(quota.limit));
}

/// What has been charged, in the order in which it was: when it began to come back at the earliest,
/// and what is kept of it.
class KeptCharges {
  public:
    size_t add(int64_t from_us, int64_t kept_us) {
        all_.push_back({from_us, kept_us});
        return all_.size() - 1;
    }
    void give_back(size_t which, int64_t back_us) { all_[which].kept_us -= back_us; }

    /// The time at which all units are there.
    int64_t arrival_us() const {
        int64_t arrival = 0;
        for (const One &one : all_) {
            arrival = std::max(arrival, one.from_us) + one.kept_us;
        }
        return arrival;
    }

  private:
    struct One {
        int64_t from_us;
        int64_t kept_us;
    };
    std::vector<One> all_;
};

/// A request in flight, or units that were leased.
struct Flight {
    Charge charge;
    size_t number; // in KeptCharges
    uint64_t units;
};

/// The bucket, and what it has to be.
class ExactBucket {
  public:
    /// Rules of these quotas share it, and count in time.
    explicit ExactBucket(std::vector<Quota> quotas) : quotas_(std::move(quotas)) {}

    EmbeddedBucket &bucket() { return bucket_; }
    std::vector<Flight> &in_flight() { return in_flight_; }

    /// Returns whether it was granted.
    bool charge(uint64_t units, size_t rule = 0) {
        const Quota &quota = quotas_[rule];
        const bool fits = std::max(charged_.arrival_us(), bucket_.now_us) + time_of(quota, units) <=
                          bucket_.now_us + time_of(quota, quota.capacity());
        const Charge charge = bucket_.ask(quota, units);
        EXPECT_EQ(charge.is_charged, fits);
        if (charge.is_charged) {
            in_flight_.push_back(
                {charge, charged_.add(bucket_.now_us, time_of(quota, units)), units});
        }
        return charge.is_charged;
    }

    void lease(microseconds longest, uint64_t wanted) {
        const Quota &quota = quotas_.front();
        Charge charge = bucket_.lease(quota, 0, longest, wanted);
        if (charge.leased.units > 0) {
            const int64_t end_us = bucket_.now_us + longest.count();
            charge.receipt = charge.leased.receipt;
            charge.decided = {}; // they may come back in parts
            in_flight_.push_back({charge, charged_.add(end_us, time_of(quota, charge.leased.units)),
                                  charge.leased.units});
            lease_end_us_ = std::max(lease_end_us_, end_us);
        }
    }

    void owe(uint64_t units) {
        const Quota &quota = quotas_.front();
        bucket_.owe(bucket_.ask(quota, 0), units);
        charged_.add(bucket_.now_us, time_of(quota, units));
    }

    /// Returns how much came back.
    int64_t give_back(size_t which, uint64_t units, Refund by) {
        Flight &reserved = in_flight_[which];
        const int64_t earliest = std::max(bucket_.now_us, lease_end_us_);
        const int64_t ahead = bucket_.ahead_us() - (earliest - bucket_.now_us);
        const int64_t before = bucket_.arrival_us();
        const int64_t by_receipt = reserved.charge.receipt - bucket_.moved_back_us() - earliest;
        bucket_.give_back(reserved.charge, units, by);
        const int64_t back = before - bucket_.arrival_us();
        if (by_receipt <= ahead) { // else it is of a key that has gone
            EXPECT_GE(back,
                      std::clamp<int64_t>(by_receipt, 0, time_of(reserved.charge.quota, units)))
                << "as 1.0.0 does";
        }
        if (reserved.charge.decided.count() > 0) {
            const auto led_to = reserved.charge.decided + reserved.charge.verdict.reset;
            EXPECT_LE(back, std::max<int64_t>(led_to.count() - bucket_.now_us, 0))
                << "what came back of itself";
        }
        charged_.give_back(reserved.number, back);
        reserved.units -= units;
        if (reserved.units == 0 || reserved.charge.decided.count() > 0) {
            in_flight_.erase(in_flight_.begin() + static_cast<ptrdiff_t>(which));
        }
        return back;
    }

    void remove_counter() {
        bucket_.remove_counter();
        charged_ = {};
        lease_end_us_ = 0;
    }

    void expect_exact() {
        const int64_t expected = std::max<int64_t>(charged_.arrival_us() - bucket_.now_us, 0);
        EXPECT_EQ(bucket_.ahead_us(), expected);
    }

    struct Saved {
        EmbeddedBucket::Saved bucket;
        KeptCharges charged;
        std::vector<Flight> in_flight;
    };
    Saved save() { return {bucket_.save(), charged_, in_flight_}; }
    void restore(const Saved &saved) {
        bucket_.restore(saved.bucket);
        charged_ = saved.charged;
        in_flight_ = saved.in_flight;
    }

  private:
    std::vector<Quota> quotas_;
    EmbeddedBucket bucket_;
    KeptCharges charged_;
    std::vector<Flight> in_flight_;
    int64_t lease_end_us_ = 0;
};

TEST(Returns, OfOneInstantAreTheSameInEveryOrder) {
    std::vector<size_t> order = {0, 1, 2, 3, 4};
    const Quota quota = seconds(1'000);
    do {
        for (const int64_t apart : {int64_t{0}, second, 7 * second}) {
            for (const int64_t later : {int64_t{0}, 3 * second, 60 * second, 100 * second}) {
                ExactBucket exact({quota});
                EmbeddedBucket &bucket = exact.bucket();
                std::vector<Charge> charges;
                for (size_t i = 0; i < order.size(); ++i) {
                    bucket.now_us += apart;
                    charges.push_back(bucket.ask(quota, 30 + 10 * i));
                }
                bucket.now_us += later;
                int64_t expected = bucket.ahead_us();
                for (const Charge &charge : charges) {
                    const int64_t left =
                        (charge.decided + charge.verdict.reset).count() - bucket.now_us;
                    expected -= std::clamp<int64_t>(
                        left, 0, static_cast<int64_t>(charge.quota.cost - 5) * second);
                }
                for (const size_t i : order) {
                    bucket.give_back(charges[i], charges[i].quota.cost - 5, Refund::whole);
                }
                ASSERT_EQ(bucket.ahead_us(), expected);
            }
        }
    } while (std::ranges::next_permutation(order).found);
}

/// All that may happen in so many steps.
class Everything {
  public:
    Everything() : exact_({seconds(4)}) {}

    void run(int steps) {
        if (steps == 0 || testing::Test::HasFailure()) {
            return;
        }
        const ExactBucket::Saved saved = exact_.save();
        const auto after = [&](const auto &act) {
            act();
            exact_.expect_exact();
            ++states_;
            run(steps - 1);
            exact_.restore(saved);
        };
        for (const uint64_t units : {1, 3}) {
            after([&] { exact_.charge(units); });
        }
        after([&] { exact_.bucket().now_us += second; });
        if (!has_debt_) {
            has_debt_ = true;
            after([&] { exact_.owe(1); });
            has_debt_ = false;
        }
        for (size_t i = 0; i < saved.in_flight.size(); ++i) {
            const uint64_t units = saved.in_flight[i].units;
            after([&] { exact_.give_back(i, units, Refund::whole); });
            if (units > 1) {
                after([&] { exact_.give_back(i, units - 1, Refund::whole); });
            }
            after([&] { exact_.give_back(i, units, Refund::of_1_0_0); });
        }
    }

    int states() const { return states_; }

  private:
    ExactBucket exact_;
    bool has_debt_ = false;
    int states_ = 0;
};

TEST(Returns, LeaveTheCounterAsIfRequestsHadCostWhatTheyKept) {
    Everything everything;
    everything.run(7);
    EXPECT_GT(everything.states(), 100'000);
}

// Most of what may go wrong needs few units, few requests and more steps than can all be tried.
TEST(Returns, LeaveItSoInManySmallWorlds) {
    Traffic traffic;
    for (int round = 0; round < 3'000 && !testing::Test::HasFailure(); ++round) {
        ExactBucket exact({seconds(static_cast<uint64_t>(traffic.between(4, 8)))});
        for (int step = 0; step < 25; ++step) {
            std::vector<Flight> &in_flight = exact.in_flight();
            if (!in_flight.empty() && traffic.one_in(2)) {
                const auto which = static_cast<size_t>(
                    traffic.between(0, static_cast<int64_t>(in_flight.size()) - 1));
                const auto most = static_cast<int64_t>(in_flight[which].units);
                const Refund by = !traffic.one_in(4)  ? Refund::whole
                                  : traffic.one_in(2) ? Refund::of_1_0_0
                                                      : Refund::on_one_key;
                exact.give_back(which, static_cast<uint64_t>(traffic.between(1, most)), by);
            } else if (traffic.one_in(3)) {
                exact.bucket().now_us += second * traffic.between(1, 2) / 2;
            } else {
                exact.charge(static_cast<uint64_t>(traffic.between(1, 3)));
            }
            exact.expect_exact();
        }
    }
}

// What is known of the past is out of date then.
TEST(Returns, LeaveItSoAfterOthersThatDoNotKeepThePast) {
    for (const Refund by : {Refund::on_one_key, Refund::of_1_0_0}) {
        ExactBucket exact({seconds(8)});
        const auto give_back = [&](size_t which, uint64_t units, Refund as) {
            exact.give_back(which, units, as);
            exact.expect_exact();
        };
        exact.charge(1);
        exact.charge(3);
        give_back(0, 1, Refund::whole); // it knows that 3 are taken
        give_back(0, 3, by);
        exact.charge(4);
        exact.charge(1);
        give_back(0, 4, Refund::whole);
        exact.bucket().now_us += second + second / 2; // the last one has come back of itself
        exact.charge(2);
        give_back(0, 1, Refund::whole);
        EXPECT_EQ(exact.bucket().ahead_us(), 2 * second);
    }
}

TEST(Returns, LeaveItSoOverLongTimes) {
    Traffic traffic;
    int64_t returned = 0;
    int leased = 0;
    for (int round = 0; round < 300 && !testing::Test::HasFailure(); ++round) {
        const auto capacity = static_cast<uint64_t>(traffic.one_of({8, 20, 100}));
        ExactBucket exact({seconds(capacity), seconds(capacity, 4)});
        const bool shared = traffic.one_in(3);
        const bool leases = traffic.one_in(3);
        const int others = traffic.one_in(2) ? 6 : 1'000'000;
        for (int step = 0; step < 200 && !testing::Test::HasFailure(); ++step) {
            exact.bucket().now_us += traffic.one_in(3) ? 0 : traffic.between(0, 2 * second);
            std::vector<Flight> &in_flight = exact.in_flight();
            if (!in_flight.empty() && traffic.one_in(2)) {
                const auto which = static_cast<size_t>(
                    traffic.one_in(2)
                        ? traffic.between(0, static_cast<int64_t>(in_flight.size()) - 1)
                        : static_cast<int64_t>(in_flight.size()) - 1);
                const auto most = static_cast<int64_t>(in_flight[which].units);
                const Refund by = !traffic.one_in(others) ? Refund::whole
                                  : traffic.one_in(2)     ? Refund::of_1_0_0
                                                          : Refund::on_one_key;
                returned +=
                    exact.give_back(which, static_cast<uint64_t>(traffic.between(1, most)), by);
            } else if (leases && traffic.one_in(3)) {
                exact.lease(milliseconds(traffic.between(1, 2'000)), 3);
                ++leased;
            } else if (traffic.one_in(12)) {
                exact.owe(static_cast<uint64_t>(traffic.between(1, 10)));
            } else if (traffic.one_in(60)) {
                exact.bucket().remove_past();
            } else if (traffic.one_in(120)) {
                exact.bucket().now_us += static_cast<int64_t>(capacity) * second;
            } else {
                exact.charge(
                    static_cast<uint64_t>(traffic.between(1, static_cast<int64_t>(capacity) / 3)),
                    shared && traffic.one_in(2) ? 1 : 0);
            }
            exact.expect_exact();
        }
    }
    EXPECT_GT(returned, 1'000 * second);
    EXPECT_GT(leased, 100);
}

/// How much of the limit requests use, in percent, where more come than it grants: each reserves a
/// 300th of a capacity of a minute, is in flight for 10 s on average, and uses a fifth.
double used_of_the_limit(Refund by) {
    const Quota quota = {.algorithm = Algorithm::token_bucket,
                         .window = milliseconds(60'000),
                         .limit = 3'000,
                         .burst = 3'000}; // a unit is 20 ms
    constexpr uint64_t reserves = 10;
    constexpr uint64_t uses = 2;
    constexpr int64_t lasts_us = 10 * minute;
    Traffic traffic;
    EmbeddedBucket bucket;
    std::multimap<int64_t, Charge> in_flight; // by their ends
    uint64_t used = 0;
    const int64_t begin_us = bucket.now_us;
    for (int64_t next_us = begin_us; next_us < begin_us + lasts_us; next_us += 20'000) {
        while (!in_flight.empty() && in_flight.begin()->first <= next_us) {
            bucket.now_us = in_flight.begin()->first;
            bucket.give_back(in_flight.begin()->second, reserves - uses, by);
            in_flight.erase(in_flight.begin());
        }
        bucket.now_us = next_us;
        const Charge charge = bucket.ask(quota, reserves);
        if (charge.is_charged) {
            // exponentially distributed
            const double random = static_cast<double>(traffic.between(1, 1'000'000)) / 1e6;
            in_flight.emplace(next_us - static_cast<int64_t>(std::log(random) * 10e6), charge);
            used += next_us >= begin_us + lasts_us / 5 ? uses : 0;
        }
    }
    const double granted = static_cast<double>(lasts_us - lasts_us / 5) / 20'000;
    return 100 * static_cast<double>(used) / granted;
}

// docs/token-budgets.md has these numbers.
TEST(Returns, LetRequestsThatReserveMuchUseTheLimit) {
    const double before = used_of_the_limit(Refund::of_1_0_0);
    const double now = used_of_the_limit(Refund::whole);
    std::printf("used of the limit: %.1f %% by 1.0.0, %.1f %% now\n", before, now);
    EXPECT_LT(before, 70);
    EXPECT_GT(now, 95);
}

/// Where the clock steps back, what is taken waits longer: never less than if it had not.
TEST(Returns, GrantNoMoreWhereTheClockStepsBack) {
    Traffic traffic;
    int64_t returned = 0;
    for (int round = 0; round < 300 && !testing::Test::HasFailure(); ++round) {
        const Quota quota = seconds(20);
        EmbeddedBucket bucket;
        KeptCharges needed; // by a clock that does not step
        std::vector<Charge> in_flight;
        std::vector<size_t> numbers;
        std::vector<uint64_t> too_much;
        int64_t stepped_us = 0;
        for (int step = 0; step < 100; ++step) {
            bucket.now_us += traffic.between(0, 2 * second);
            if (traffic.one_in(10)) {
                const int64_t back = traffic.between(0, 8 * second);
                bucket.now_us -= back;
                stepped_us += back;
            }
            if (!in_flight.empty() && traffic.one_in(2)) {
                const auto which = traffic.between(0, static_cast<int64_t>(in_flight.size()) - 1);
                const auto at = static_cast<size_t>(which);
                const int64_t before = bucket.arrival_us();
                bucket.give_back(in_flight[at], too_much[at], Refund::whole);
                returned += before - bucket.arrival_us();
                needed.give_back(numbers[at], time_of(quota, too_much[at]));
                in_flight.erase(in_flight.begin() + which);
                numbers.erase(numbers.begin() + which);
                too_much.erase(too_much.begin() + which);
            } else {
                const auto units = static_cast<uint64_t>(traffic.between(1, 6));
                const Charge charge = bucket.ask(quota, units);
                if (charge.is_charged) {
                    in_flight.push_back(charge);
                    numbers.push_back(
                        needed.add(bucket.now_us + stepped_us, time_of(quota, units)));
                    too_much.push_back(
                        static_cast<uint64_t>(traffic.between(1, static_cast<int64_t>(units))));
                }
            }
            const int64_t now_us = bucket.now_us + stepped_us;
            ASSERT_GE(bucket.ahead_us(), needed.arrival_us() - now_us) << "step " << step;
        }
    }
    EXPECT_GT(returned, 1'000 * second);
}

} // namespace
} // namespace model
