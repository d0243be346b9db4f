// Windows of calendars in a real Redis on a moved clock. t/model/calendars.t tells that the windows
// themselves are right; here a ledger counts what was granted in each.

#include "model_test.hpp"

#include "rate_limit/calendar/calendar.hpp"
#include "redis_client/script/answer.hpp"

#include <map>
#include <vector>

namespace model {
namespace {

using rate_limit::Calendar;
using rate_limit::CalendarUnit;

std::unique_ptr<Calendar> calendar_of(CalendarUnit unit, uint64_t starts, const std::string &zone) {
    const std::string known = rate_limit::has_time_zones() ? zone : "UTC";
    return std::make_unique<Calendar>(
        rate_limit::CalendarName{.unit = unit, .starts = starts, .time_zone = known},
        rate_limit::find_time_zone(known));
}

std::vector<std::unique_ptr<Calendar>> some_calendars() {
    std::vector<std::unique_ptr<Calendar>> some;
    some.push_back(calendar_of(CalendarUnit::day, 1, "UTC"));
    some.push_back(calendar_of(CalendarUnit::day, 1, "America/Havana"));
    some.push_back(calendar_of(CalendarUnit::day, 1, "Pacific/Apia"));
    some.push_back(calendar_of(CalendarUnit::week, 1, "Australia/Lord_Howe"));
    some.push_back(calendar_of(CalendarUnit::month, 15, "Europe/Berlin"));
    some.push_back(calendar_of(CalendarUnit::quarter, 28, "Asia/Kathmandu"));
    some.push_back(calendar_of(CalendarUnit::year, 1, "America/St_Johns"));
    return some;
}

class CalendarsTest : public testing::Test {
  protected:
    static Quota quota_of(const Calendar &calendar, uint64_t limit, uint64_t cost = 1) {
        return {.algorithm = Algorithm::fixed_window,
                .window = calendar.longest_window(),
                .calendar = &calendar,
                .limit = limit,
                .cost = cost};
    }
    /// The next commands come from a host whose clock is so far ahead.
    void be_host(int64_t ahead_us) {
        redis_.host_clock = [this, ahead_us] { return microseconds(clock_.now() + ahead_us); };
    }
    Charge ask(const Quota &quota, std::string_view key) {
        Charge charge = charge_of(quota, false, key);
        EXPECT_EQ(redis_.check({&charge, 1}), "");
        return charge;
    }
    std::string settle(SettlementKind kind, const Charge &charge, uint64_t units) {
        const Redis::Settlement settlement{&charge, units};
        return redis_.settle(kind, {&settlement, 1}, false);
    }
    /// To a random time, and most often to one beside a boundary.
    void move_on(const Calendar &calendar) {
        const rate_limit::CalendarWindow window = calendar.window_at(microseconds(clock_.now()));
        const int64_t left = window.end.count() - clock_.now();
        if (traffic_.one_in(4)) {
            clock_.move(left + traffic_.between(-1, 1));
        } else if (traffic_.one_in(20)) {
            clock_.move(left + traffic_.between(0, 3 * window.length().count()));
        } else {
            clock_.move(traffic_.between(0, left / 4));
        }
    }

    Redis redis_;
    Clock clock_;
    Traffic traffic_;
};

struct InFlight {
    Charge charge;
    uint64_t units;
    int64_t receipt;
    int64_t window; // when it began
};

TEST_F(CalendarsTest, GrantAtMostTheLimitInAWindow) {
    const auto calendars = some_calendars();
    int granted = 0, denied = 0, leased = 0, returned = 0, dropped = 0, debts = 0;
    for (int round = 0; round < 50; ++round) {
        const Calendar &calendar = *calendars[static_cast<size_t>(round) % calendars.size()];
        const auto limit = static_cast<uint64_t>(traffic_.one_of({1, 3, 20, 200}));
        const std::string key = "k" + std::to_string(round);
        SCOPED_TRACE(calendar.name() + ", limit " + std::to_string(limit));
        std::map<int64_t, uint64_t> taken; // by when the window began
        std::vector<InFlight> in_flight;
        clock_.set(traffic_.between(600'000'000'000'000, 2'100'000'000'000'000));
        for (int step = 0; step < 120; ++step) {
            move_on(calendar);
            be_host(traffic_.between(-10 * minute, 10 * minute));
            const auto window = calendar.window_at(microseconds(clock_.now()));
            uint64_t &of_window = taken[window.begin.count()];
            const int64_t left = window.end.count() - clock_.now();
            if (!in_flight.empty() && traffic_.one_in(3)) {
                const InFlight ended = in_flight.back();
                in_flight.pop_back();
                if (traffic_.one_in(3)) {
                    ASSERT_EQ(settle(SettlementKind::debt, ended.charge, 2), "1");
                    of_window += 2;
                    ++debts;
                    continue;
                }
                Charge charge = ended.charge;
                charge.receipt = ended.receipt;
                ASSERT_EQ(settle(SettlementKind::refund, charge, ended.units), "1");
                const bool is_of_it = ended.window == window.begin.count();
                of_window -= is_of_it ? ended.units : 0;
                ++(is_of_it ? returned : dropped);
                continue;
            }
            const uint64_t cost = traffic_.one_in(5) ? 0 : 1 + limit / 20;
            const uint64_t wanted = traffic_.one_in(3) ? 8 : 0;
            const Quota quota = quota_of(calendar, limit, cost);
            Charge charge = leasing_charge_of(quota, false, key, microseconds(10'000'000), wanted);
            ASSERT_EQ(redis_.check({&charge, 1}), "");
            const bool fits = of_window + cost <= limit;
            ASSERT_EQ(charge.verdict.decision == Decision::granted, fits);
            ASSERT_EQ(microseconds(charge.quota.window), window.length());
            if (fits) {
                of_window += cost;
                ++granted;
                if (cost > 0) {
                    in_flight.push_back({charge, cost, charge.receipt, window.begin.count()});
                }
            } else {
                ASSERT_EQ(charge.verdict.retry_after.count(), left);
                ++denied;
            }
            ASSERT_EQ(charge.verdict.remaining, limit - std::min(limit, of_window));
            ASSERT_EQ(charge.verdict.reset.count(), charge.verdict.remaining < limit ? left : 0);
            if (charge.leased.units > 0) {
                ASSERT_LE(charge.leased.usable_for.count(), left) << "a lease ends with its window";
                of_window += charge.leased.units;
                in_flight.push_back(
                    {charge, charge.leased.units, charge.leased.receipt, window.begin.count()});
                ++leased;
            }
            ASSERT_LE(of_window, limit + 2 * static_cast<uint64_t>(debts));
            if (of_window > 0) {
                ASSERT_EQ(redis_.time_to_live_ms(key), (left + 999) / 1000 + 5001);
                const auto peeked = redis_.peek(quota_of(calendar, limit), false, key);
                ASSERT_TRUE(peeked);
                ASSERT_EQ(peeked->remaining, limit - std::min(limit, of_window));
            }
        }
    }
    EXPECT_GT(std::min({granted, denied, leased, returned, dropped, debts}), 50);
}

TEST_F(CalendarsTest, OneWindowOffTheHostIsStillUnderstood) {
    const auto month = calendar_of(CalendarUnit::month, 1, "UTC");
    const int64_t length = 28 * 24 * 60 * minute;
    clock_.set(1'770'000'000'000'000); // in February of 2026
    const Quota quota = quota_of(*month, 5);
    for (const int64_t ahead : {-length, int64_t{0}, length}) {
        be_host(ahead);
        const Charge charge = ask(quota, "k");
        EXPECT_EQ(charge.verdict.decision, Decision::granted);
        EXPECT_EQ(microseconds(charge.quota.window), std::chrono::hours{24} * 28);
        EXPECT_EQ(charge.verdict.reset,
                  month->window_at(microseconds(clock_.now())).end - microseconds(clock_.now()));
    }
    EXPECT_EQ(ask(quota, "k").verdict.remaining, 1u);
}

TEST_F(CalendarsTest, AHostThatIsFartherOffGetsNoVerdictAndChargesNothing) {
    const auto day = calendar_of(CalendarUnit::day, 1, "Europe/Berlin");
    const Quota quota = quota_of(*day, 5);
    const Quota other{
        .algorithm = Algorithm::sliding_log, .window = std::chrono::seconds{60}, .limit = 5};
    const auto charges = [&] {
        return std::vector<Charge>{charge_of(other, false, "other"), charge_of(quota, false, "k")};
    };
    for (const int64_t ahead : {-366 * 24 * 60 * minute, 3 * 24 * 60 * minute}) {
        be_host(ahead);
        std::vector<Charge> alone = charges();
        const std::string error = redis_.check(alone);
        EXPECT_EQ(redis_client::time_without_window(error), microseconds(clock_.now())) << error;
        EXPECT_TRUE(redis_client::is_error_of_keys(error)) << error;
        std::vector<std::vector<Charge>> batch = {charges(), charges()};
        const Charge *const first = batch[0].data();
        batch[1][0].arguments = first[0].arguments;
        for (const std::string &failure : redis_.check_run(batch)) {
            EXPECT_EQ(redis_client::time_without_window(failure), microseconds(clock_.now()));
        }
        const std::string settled = settle(SettlementKind::debt, alone[1], 3);
        EXPECT_EQ(settled.substr(0, 1), "0");
        EXPECT_EQ(redis_client::time_without_window(std::string_view(settled).substr(1)),
                  microseconds(clock_.now()));
        EXPECT_EQ(redis_.peek(quota, false, "k"), std::nullopt);
        Redis any;
        any.host_clock = redis_.host_clock;
        any.ask_any_rules();
        alone = charges();
        EXPECT_TRUE(redis_client::time_without_window(any.check(alone)));
        EXPECT_FALSE(redis_.has("k"));
        EXPECT_FALSE(redis_.has("other"));
    }
}

TEST_F(CalendarsTest, AStateNeverGoesBackToAnEarlierWindow) {
    const auto day = calendar_of(CalendarUnit::day, 1, "UTC");
    const int64_t midnight = 20'000 * 24 * 60 * minute;
    const Quota quota = quota_of(*day, 5, 4);
    be_host(0);
    clock_.set(midnight - minute);
    const Charge before = ask(quota, "k");
    clock_.set(midnight + minute);
    const Charge after = ask(quota, "k");
    EXPECT_EQ(after.verdict.remaining, 1u);

    clock_.set(midnight - 2 * minute); // back over the boundary
    const Charge back = ask(quota, "k");
    EXPECT_EQ(back.verdict.decision, Decision::denied);
    EXPECT_EQ(back.verdict.retry_after.count(), (24 * 60 + 2) * minute);
    const Charge one = ask(quota_of(*day, 5), "k");
    EXPECT_EQ(one.verdict.remaining, 0u);
    EXPECT_EQ(microseconds(one.quota.window), std::chrono::hours{24});

    settle(SettlementKind::refund, before, 4); // of the window that is over
    EXPECT_EQ(ask(quota, "k").verdict.remaining, 0u);
    settle(SettlementKind::refund, one, 1);
    EXPECT_EQ(ask(quota, "k").verdict.remaining, 1u);
    settle(SettlementKind::refund, after, 4);
    EXPECT_EQ(ask(quota_of(*day, 5), "k").verdict.remaining, 4u);
}

TEST_F(CalendarsTest, AWindowThatAHostOfOtherDataHasBegunStays) {
    const auto first = calendar_of(CalendarUnit::day, 1, "Etc/GMT-2"); // ends two hours earlier
    const auto other = calendar_of(CalendarUnit::day, 1, "Etc/GMT-1");
    if (first->name() == other->name()) {
        GTEST_SKIP() << "built without cctz";
    }
    const int64_t midnight = 20'000 * 24 * 60 * minute;
    be_host(0);
    clock_.set(midnight - 119 * minute); // a new day by the first, not by the other
    EXPECT_EQ(ask(quota_of(*first, 5, 5), "k").verdict.remaining, 0u);
    const Charge charge = ask(quota_of(*other, 5), "k");
    EXPECT_EQ(charge.verdict.decision, Decision::denied);
    EXPECT_EQ(charge.verdict.retry_after.count(), (24 * 60 - 1) * minute);
    clock_.move(charge.verdict.retry_after.count());
    EXPECT_EQ(ask(quota_of(*first, 5), "k").verdict.decision, Decision::granted);
}

TEST_F(CalendarsTest, WhatIsChargedBeforeADeletionIsNotReturnedAfterIt) {
    const auto year = calendar_of(CalendarUnit::year, 1, "UTC");
    be_host(0);
    const Charge before = ask(quota_of(*year, 5, 4), "k");
    redis_.command({"DEL", "k"});
    clock_.move(1);
    EXPECT_EQ(ask(quota_of(*year, 5, 3), "k").verdict.remaining, 2u);
    settle(SettlementKind::refund, before, 4);
    EXPECT_EQ(ask(quota_of(*year, 5), "k").verdict.remaining, 1u);
}

} // namespace
} // namespace model
