#include "rate_limit/rule/rule.hpp"

#include "unit/rate_limit/calendar/calendars.hpp"

#include <gtest/gtest.h>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;

struct Named {
    Algorithm algorithm;
    std::string_view name;
};

constexpr Named algorithms[] = {
    {Algorithm::fixed_window, "fixed_window"},
    {Algorithm::sliding_log, "sliding_log"},
    {Algorithm::sliding_window, "sliding_window"},
    {Algorithm::token_bucket, "token_bucket"},
    {Algorithm::gcra, "gcra"},
    {Algorithm::leaky_bucket, "leaky_bucket"},
    {Algorithm::concurrency, "concurrency"},
};

Rule per_ip(std::chrono::milliseconds window) {
    Rule rule;
    rule.zone = "per_ip";
    rule.quota.limit = 100;
    rule.quota.window = window;
    return rule;
}

TEST(Rule, KnowsItsAlgorithmByName) {
    for (const auto &[algorithm, name] : algorithms) {
        EXPECT_EQ(algorithm_named(name), algorithm);
        EXPECT_EQ(to_string(algorithm), name);
    }
    for (const char *name : {"", "sliding", "sliding_log ", "SLIDING_LOG", "sliding_log2"}) {
        EXPECT_EQ(algorithm_named(name), std::nullopt) << name;
    }
}

TEST(Rule, ListsAlgorithmsAsMessagesNameThem) {
    using Traits = AlgorithmTraits;
    EXPECT_EQ(names_of_algorithms([](const Traits &) { return true; }),
              "fixed_window, sliding_log, sliding_window, token_bucket, gcra, leaky_bucket or "
              "concurrency");
    EXPECT_EQ(names_of_algorithms([](const Traits &one) { return one.takes_delay; }),
              "leaky_bucket");
    EXPECT_EQ(names_of_algorithms([](const Traits &) { return false; }), "");
}

TEST(Rule, BoundsLimitsAndCostsByAlgorithm) {
    for (const auto &[algorithm, name] : algorithms) {
        const bool is_log = algorithm == Algorithm::sliding_log;
        EXPECT_EQ(largest_limit(algorithm), is_log ? 1'000'000u : 1'000'000'000u) << name;
        EXPECT_EQ(largest_cost(algorithm), is_log ? 1'000u : 1'000'000'000u) << name;
    }
}

TEST(Rule, RefillsBucketsUnitByUnit) {
    for (const auto &[algorithm, name] : algorithms) {
        EXPECT_EQ(is_bucket(algorithm), algorithm == Algorithm::token_bucket ||
                                            algorithm == Algorithm::gcra ||
                                            algorithm == Algorithm::leaky_bucket)
            << name;
    }
}

TEST(Rule, HasWindowsFromAMillisecondToALeapYear) {
    EXPECT_EQ(shortest_window, 1ms);
    EXPECT_EQ(longest_window, 366 * 24h);
}

TEST(Rule, TakesNamesThatNeedNoEscapeAnywhere) {
    for (const std::string &name :
         {std::string("a"), std::string("AZaz09._/-"), std::string(64, 'x')}) {
        EXPECT_TRUE(is_name(name)) << name;
    }
    constexpr std::string_view allowed =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/-";
    for (int byte = 0; byte < 256; ++byte) {
        const char c = static_cast<char>(byte);
        EXPECT_EQ(is_name({&c, 1}), allowed.find(c) != std::string_view::npos) << byte;
        EXPECT_EQ(is_name("a" + std::string(1, c)), allowed.find(c) != std::string_view::npos);
    }
    EXPECT_FALSE(is_name(""));
    EXPECT_FALSE(is_name(std::string(65, 'x')));
}

TEST(Rule, HasANameThatIsOneWhateverItsZoneAndWindow) {
    Rule rule = per_ip(longest_window - 1ms);
    rule.zone = std::string(longest_name, 'z');
    EXPECT_EQ(rule.name().size(), longest_rule_name);
    EXPECT_TRUE(is_rule_name(rule.name()));
    EXPECT_FALSE(is_rule_name(rule.name() + "s"));
    rule.quota.algorithm = Algorithm::concurrency;
    EXPECT_TRUE(is_rule_name(rule.name()));
    EXPECT_FALSE(is_rule_name(""));
    EXPECT_FALSE(is_rule_name("a b"));
}

TEST(Rule, IsNamedAfterZoneAndWindow) {
    EXPECT_EQ(per_ip(60s).name(), "per_ip/60s");
    EXPECT_EQ(per_ip(1ms).name(), "per_ip/1ms");
    EXPECT_EQ(per_ip(500ms).name(), "per_ip/500ms");
    EXPECT_EQ(per_ip(1s).name(), "per_ip/1s");
    EXPECT_EQ(per_ip(1500ms).name(), "per_ip/1500ms");
    EXPECT_EQ(per_ip(longest_window).name(), "per_ip/31622400s");
}

TEST(Rule, IsNamedAfterConcurrencyWhateverItsWindow) {
    Rule rule = per_ip(500ms);
    rule.quota.algorithm = Algorithm::concurrency;
    EXPECT_EQ(rule.name(), "per_ip/concurrency");
}

TEST(Rule, IsNamedAsTheUserSays) {
    Rule rule = per_ip(60s);
    rule.explicit_name = "api";
    EXPECT_EQ(rule.name(), "api");
}

TEST(Rule, SharesACounterWhateverItsLimit) {
    const Rule rule = per_ip(60s);
    EXPECT_TRUE(rule.same_counter(rule));
    Rule other = rule;
    other.quota.limit = 7;
    other.quota.burst = 3;
    other.quota.cost = 2;
    EXPECT_TRUE(rule.same_counter(other));
}

TEST(Rule, SharesNoCounterWithADifferentRule) {
    const Rule rule = per_ip(60s);
    Rule other = rule;
    other.zone = "per_user";
    EXPECT_FALSE(rule.same_counter(other));
    EXPECT_FALSE(rule.same_counter(per_ip(61s)));
    other = rule;
    other.quota.algorithm = Algorithm::sliding_window;
    EXPECT_FALSE(rule.same_counter(other));
    other = rule;
    other.explicit_name = rule.name(); // here the user gave the name
    EXPECT_FALSE(rule.same_counter(other));
}

TEST(Quota, HasTheCapacityOfItsAlgorithm) {
    for (const auto &[algorithm, name] : algorithms) {
        Quota quota{.algorithm = algorithm, .window = 1s, .limit = 10};
        const bool starts_with_one =
            algorithm == Algorithm::gcra || algorithm == Algorithm::leaky_bucket;
        EXPECT_EQ(quota.capacity(), starts_with_one ? 1u : 10u) << name;
        if (is_bucket(algorithm)) {
            quota.burst = 3;
            EXPECT_EQ(quota.capacity(), starts_with_one ? 4u : 3u) << name;
            quota.burst = 0;
            EXPECT_EQ(quota.capacity(), starts_with_one ? 1u : 0u) << name;
            quota.burst = largest_number;
            EXPECT_EQ(quota.capacity(), largest_number + (starts_with_one ? 1 : 0)) << name;
        }
        quota.limit = 0; // such a rule denies everything, whatever its burst
        EXPECT_EQ(quota.capacity(), 0u) << name;
    }
}

TEST(Quota, ComesBackWithinTheWindow) {
    for (const auto &[algorithm, name] : algorithms) {
        if (!is_bucket(algorithm)) {
            const Quota quota{.algorithm = algorithm, .window = 1500ms, .limit = 7};
            EXPECT_EQ(quota.refill(), 1500ms) << name;
        }
    }
}

TEST(Quota, ComesBackUnitByUnitOfABucket) {
    const auto refill = [](Algorithm algorithm, uint64_t limit, std::optional<uint64_t> burst) {
        return Quota{.algorithm = algorithm, .window = 1s, .limit = limit, .burst = burst}.refill();
    };
    EXPECT_EQ(refill(Algorithm::token_bucket, 10, std::nullopt), 1s);
    EXPECT_EQ(refill(Algorithm::token_bucket, 10, 20), 2s);
    EXPECT_EQ(refill(Algorithm::gcra, 10, std::nullopt), 100ms);
    EXPECT_EQ(refill(Algorithm::gcra, 10, 4), 500ms);
    EXPECT_EQ(refill(Algorithm::leaky_bucket, 10, 4), 500ms);
    EXPECT_EQ(refill(Algorithm::gcra, 3, std::nullopt), 333'334us); // rounded up
    EXPECT_EQ(refill(Algorithm::gcra, 0, 4), 1s);
}

TEST(Quota, TakesTheLongestTimeThereIsWhereItWouldTakeLonger) {
    Quota quota{.algorithm = Algorithm::gcra, .window = longest_window, .limit = 1};
    quota.burst = largest_number;
    EXPECT_EQ(quota.refill(), std::chrono::microseconds::max());
    quota.limit = largest_number;
    EXPECT_EQ(quota.refill(), longest_window + 31'623us); // one unit more than a window brings back
}

TEST(Quota, ChargesWhatItsCostExceedsWhatIsCharged) {
    Quota quota{.algorithm = Algorithm::sliding_log, .window = 1s, .limit = 10, .cost = 3};
    EXPECT_EQ(quota.to_charge(), 3);
    quota.charged = 2;
    EXPECT_EQ(quota.to_charge(), 1);
    EXPECT_TRUE(quota.charges());
    quota.charged = 5;
    EXPECT_EQ(quota.to_charge(), 0);
    EXPECT_FALSE(quota.charges());
}

TEST(Quota, OfABucketChargesTime) {
    Quota quota{.algorithm = Algorithm::gcra, .window = 1s, .limit = 3, .burst = 9, .cost = 2};
    EXPECT_EQ(quota.to_charge(), 666'666);
    quota.charged = 600'000;
    EXPECT_EQ(quota.to_charge(), 66'666);
    EXPECT_EQ(time_to_charge(quota).fraction, 2);
    quota.charged = 666'667;
    EXPECT_FALSE(quota.charges());
    quota = {.algorithm = Algorithm::gcra, .window = 1ms, .limit = largest_number, .cost = 1};
    EXPECT_EQ(quota.to_charge(), 0);
    EXPECT_TRUE(quota.charges()); // it charges a millionth of a microsecond
    quota.cost = 0;
    EXPECT_FALSE(quota.charges());
}

TEST(Quota, IsAtLeastAsStrictWhereNoNumberIsLess) {
    const Quota quota{
        .algorithm = Algorithm::gcra, .window = 1s, .limit = 10, .burst = 4, .cost = 2};
    EXPECT_TRUE(is_at_least_as_strict(quota, quota));
    const auto is_with = [&](auto change) {
        Quota other = quota;
        change(other);
        return is_at_least_as_strict(quota, other);
    };
    EXPECT_TRUE(is_with([](Quota &other) { other.limit = 11; }));
    EXPECT_FALSE(is_with([](Quota &other) { other.limit = 9; }));
    EXPECT_TRUE(is_with([](Quota &other) { other.burst = 5; }));
    EXPECT_FALSE(is_with([](Quota &other) { other.burst = 3; }));
    EXPECT_TRUE(is_with([](Quota &other) { other.cost = 1; }));
    EXPECT_FALSE(is_with([](Quota &other) { other.cost = 3; }));
    Quota delaying = quota;
    delaying.delay = 2;
    EXPECT_TRUE(is_at_least_as_strict(quota, delaying));
    EXPECT_FALSE(is_at_least_as_strict(delaying, quota)) << "which holds more back";
}

TEST(Quota, MayHaveAUnitThatOnlyHasToBeFree) {
    for (const Algorithm algorithm : rate_limit::all_algorithms) {
        Quota quota{.algorithm = algorithm, .window = 1s, .limit = 10, .cost = 0};
        keep_cost_free(quota, false);
        EXPECT_FALSE(quota.reserves_nothing);
        EXPECT_EQ(quota.to_keep_free(), 0u);
        keep_cost_free(quota, true);
        EXPECT_EQ(quota.cost, 1u);
        EXPECT_EQ(quota.to_keep_free(), 1u);
        EXPECT_EQ(quota.to_charge(), 0u);
        EXPECT_FALSE(quota.charges());
        Quota charging = quota;
        charging.reserves_nothing = false;
        EXPECT_FALSE(is_at_least_as_strict(quota, charging)) << "which would not be charged then";
        EXPECT_TRUE(is_at_least_as_strict(charging, quota));
        quota.charged = 1;
        EXPECT_EQ(quota.to_keep_free(), 0u) << "another rule has charged a unit for the request";
        Quota costly{.algorithm = algorithm, .window = 1s, .limit = 10, .cost = 2};
        keep_cost_free(costly, true);
        EXPECT_FALSE(costly.reserves_nothing);
    }
}

void expect_interval(uint64_t limit, std::chrono::milliseconds window, uint64_t length,
                     uint64_t parts, bool is_whole) {
    const Interval interval(Quota{.algorithm = Algorithm::gcra, .window = window, .limit = limit});
    EXPECT_EQ(interval.length, length) << limit;
    EXPECT_EQ(interval.parts, parts) << limit;
    EXPECT_EQ(interval.is_whole(), is_whole) << limit;
}

TEST(Interval, IsTheWindowInAsManyPartsOfAMicrosecondAsTheLimit) {
    expect_interval(1, 1s, 1'000'000, 1, true);
    expect_interval(10, 1s, 1'000'000, 10, true);
    expect_interval(3, 1s, 1'000'000, 3, false);
    expect_interval(6, 1ms, 1'000, 6, false);
    expect_interval(0, 1s, 1'000'000, 1, true);
    expect_interval(largest_number, 1ms, 1'000, largest_number, false);
    expect_interval(999'999'999, longest_window, 31'622'400'000'000, 999'999'999, false);
}

TEST(BucketTime, IsTheLongestThereIsWhereItIsLonger) {
    const Interval interval({.algorithm = Algorithm::gcra, .window = 24h, .limit = 1});
    const uint64_t day = 86'400'000'000;
    const uint64_t longest = std::chrono::microseconds::max().count();
    EXPECT_EQ(time_of_units(interval, longest / day).us, longest / day * day);
    for (const uint64_t units : {longest / day + 1, 213'503'984UL, largest_number}) {
        EXPECT_EQ(time_of_units(interval, units).us, longest);
        EXPECT_EQ(time_of_units(interval, units).fraction, 0u);
    }
}

TEST(SetByOperator, MakesUnitsStayTakenUnlessRulesMayUseOtherShards) {
    Quota quota;
    set_by_operator(quota, false, 2);
    EXPECT_EQ(quota.other_limit, OtherLimit::counts_in_time);
    set_by_operator(quota, true, 2);
    EXPECT_EQ(quota.other_limit, OtherLimit::counts_in_units);
    quota.other_limit = OtherLimit::counts_in_time;
    set_by_operator(quota, false, 1);
    EXPECT_EQ(quota.other_limit, OtherLimit::counts_in_units);
}

TEST(Rule, OfACalendarIsNamedByIt) {
    Rule rule;
    rule.zone = "plan";
    rule.calendar = utc_calendar(CalendarUnit::month, 15);
    EXPECT_EQ(rule.name(), "plan/month");
    EXPECT_EQ(rule.window_name(), "month-15");
    Rule other = rule;
    other.calendar = utc_calendar(CalendarUnit::month, 15);
    EXPECT_TRUE(rule.same_counter(other));
    other.calendar = utc_calendar(CalendarUnit::month);
    EXPECT_FALSE(rule.same_counter(other));
    other.calendar.reset();
    EXPECT_FALSE(rule.same_counter(other));
}

TEST(Quota, OfACalendarHasTheWindowOfAnInstant) {
    using std::chrono::hours;
    const auto month = utc_calendar(CalendarUnit::month);
    Quota quota{.algorithm = Algorithm::fixed_window, .limit = 5};
    quota.window = hours{1};
    quota.set_window_at(midnight_of({2026, 2, 10}));
    EXPECT_EQ(quota.window, hours{1});
    quota.calendar = month.get();
    quota.set_window_at(midnight_of({2026, 2, 10}));
    EXPECT_EQ(quota.refill(), hours{28 * 24});
    quota.set_window_until(midnight_of({2026, 2, 1}));
    EXPECT_EQ(quota.refill(), hours{31 * 24});
    quota.set_window_until(midnight_of({2026, 2, 1}) + hours{2}); // by another host's tz data
    EXPECT_EQ(quota.refill(), hours{2});
}

} // namespace
} // namespace rate_limit
