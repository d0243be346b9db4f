#include "redis_client/script/arguments.hpp"

#include "unit/rate_limit/calendar/calendars.hpp"
#include "unit/redis_client/wire.hpp"

#include <gtest/gtest.h>

namespace redis_client {
namespace {

using namespace std::chrono_literals;
using rate_limit::Algorithm;
using rate_limit::Quota;

constexpr Algorithm buckets[] = {Algorithm::token_bucket, Algorithm::gcra, Algorithm::leaky_bucket};

Quota quota_costing(Algorithm algorithm, uint64_t cost = 1) {
    return {.algorithm = algorithm, .window = 60s, .limit = 100, .cost = cost};
}

WireCommand check(const Quota &quota) {
    return words_of(check_arguments(quota, false));
}

WireCommand refund(const Quota &quota) {
    return words_of(refund_arguments(quota, {.receipt = 1'700'000'000'000'000}));
}

TEST(CheckArguments, OfAWindowAreLimitCostWindowAndTimeToLive) {
    EXPECT_EQ(check(quota_costing(Algorithm::fixed_window, 7)),
              (WireCommand{"100", "7", "60000000", "65001", "first"}));
    EXPECT_EQ(words_of(check_arguments(quota_costing(Algorithm::fixed_window), true)),
              (WireCommand{"100", "1", "60000000", "65001", "aligned"}));
    EXPECT_EQ(check(quota_costing(Algorithm::concurrency, 0)),
              (WireCommand{"100", "0", "60000000", "65001"}));
    // the window before counts too
    EXPECT_EQ(check(quota_costing(Algorithm::sliding_window)),
              (WireCommand{"100", "1", "60000000", "125001"}));
    // the expiry is put off once in an eighth of the window
    EXPECT_EQ(check(quota_costing(Algorithm::sliding_log)),
              (WireCommand{"100", "1", "60000000", "72501"}));
}

TEST(CheckArguments, OfACalendarLeaveAPlaceForWhereItsWindowsAre) {
    const auto month = rate_limit::utc_calendar(rate_limit::CalendarUnit::month);
    Quota quota = quota_costing(Algorithm::fixed_window);
    EXPECT_FALSE(check_arguments(quota, true).has_late_word());
    quota.calendar = month.get();
    const WireWords words = leasing_arguments(quota, false, 10ms);
    EXPECT_TRUE(words.has_late_word());
    EXPECT_EQ(words.count(), 6u);
    EXPECT_FALSE(refund_arguments(quota, {.receipt = 1}).has_late_word());

    const CalendarWord word = calendar_word(*month, rate_limit::midnight_of({2026, 3, 15}));
    ByteQueue out;
    CommandWriter writer(out, words.count(), words.bytes().size() + word.size());
    writer.wire(words, {word.data(), word.size()});
    std::string boundaries;
    for (const int64_t number_of_month : {2, 3, 4, 5}) {
        const auto number =
            static_cast<double>(rate_limit::midnight_of({2026, number_of_month, 1}).count());
        boundaries.append(reinterpret_cast<const char *>(&number), sizeof(number));
    }
    EXPECT_EQ(parse_commands(out.bytes()),
              (Commands{{"100", "1", "60000000", "65001", boundaries, "10000"}}));
}

TEST(CheckArguments, LetAKeyLiveWholeMillisecondsRoundedUp) {
    Quota quota{.algorithm = Algorithm::sliding_log, .window = 1ms, .limit = 1};
    EXPECT_EQ(check(quota), (WireCommand{"1", "1", "1000", "5003"})); // 1.125 ms
    EXPECT_EQ(time_to_live_ms(0us), 5001u);
    EXPECT_EQ(time_to_live_ms(1us), 5002u);
    EXPECT_EQ(time_to_live_ms(1ms), 5002u);
    EXPECT_EQ(time_to_live_ms(1001us), 5003u);
}

TEST(CheckArguments, OfAWindowAreWholeAtTheirLargest) {
    const Quota quota{.algorithm = Algorithm::sliding_window,
                      .window = rate_limit::longest_window,
                      .limit = rate_limit::largest_number,
                      .cost = rate_limit::largest_number};
    EXPECT_EQ(check(quota),
              (WireCommand{"1000000000", "1000000000", "31622400000000", "63244805001"}));
}

/// What ARGV[5] is, of a check that lets a state of another limit count in time.
std::string mark(uint64_t limit) {
    return std::to_string((uint64_t{1} << 32) + limit);
}

TEST(CheckArguments, OfABucketAreWholePartsOfAMicrosecond) {
    for (const Algorithm algorithm : buckets) {
        Quota quota{.algorithm = algorithm, .window = 1s, .limit = 700'000}; // a unit each 10/7 us
        quota.burst = algorithm == Algorithm::token_bucket ? 4 : 3;
        const std::string limit = mark(700'000);
        EXPECT_EQ(check(quota),
                  (WireCommand{"1", "300000", "5", "500000", limit, "5002"})); // 1 3/7 us, 5 5/7 us
        quota.cost = 3;
        EXPECT_EQ(check(quota), (WireCommand{"4", "200000", "5", "500000", limit, "5002"}));
        quota.cost = 0;
        EXPECT_EQ(check(quota), (WireCommand{"0", "0", "5", "500000", limit, "5002"}));
        quota.limit = 10;
        quota.cost = 1;
        EXPECT_EQ(check(quota), (WireCommand{"100000", "0", "400000", "0", mark(10), "5401"}));
    }
}

TEST(CheckArguments, OfABucketTellWhatOtherLimitsMean) {
    Quota quota{.algorithm = Algorithm::gcra, .window = 1s, .limit = 10};
    quota.other_limit = rate_limit::OtherLimit::counts_in_units;
    EXPECT_EQ(check(quota)[4], std::to_string((uint64_t{2} << 32) + 10));
    EXPECT_EQ(refund(quota)[2], check(quota)[4]);
    quota.other_limit = rate_limit::OtherLimit::looked_at_in_units;
    EXPECT_EQ(check(quota)[4], std::to_string((uint64_t{3} << 32) + 10));
    quota.other_limit = rate_limit::OtherLimit::looked_at_in_time;
    EXPECT_EQ(check(quota)[4], std::to_string((uint64_t{4} << 32) + 10));
}

TEST(CheckArguments, OfABucketBoundACostThatIsMoreThanIt) {
    for (const Algorithm algorithm : buckets) {
        Quota quota{.algorithm = algorithm,
                    .window = rate_limit::longest_window,
                    .limit = 10,
                    .burst = 8,
                    .cost = rate_limit::largest_number};
        const WireCommand of_largest = check(quota);
        quota.cost = quota.capacity() + 1;
        EXPECT_EQ(check(quota), of_largest);
        EXPECT_GT(std::stoull(of_largest[0]), std::stoull(of_largest[2]));
    }
}

TEST(CheckArguments, OfABucketStayExactInLuaAtTheirLargest) {
    for (const Algorithm algorithm : buckets) {
        for (const auto window : {rate_limit::shortest_window, rate_limit::longest_window}) {
            // the longest time to fill that is not refused
            const Quota quota{.algorithm = algorithm,
                              .window = window,
                              .limit = rate_limit::largest_number,
                              .burst = rate_limit::largest_number,
                              .cost = rate_limit::largest_number};
            for (const std::string &word : check(quota)) {
                EXPECT_LT(std::stoull(word), uint64_t{1} << 53);
            }
        }
    }
}

TEST(CheckArguments, OfARuleWithoutCapacityDoNoHarm) {
    for (const Algorithm algorithm : buckets) { // is never asked for
        EXPECT_EQ(check_arguments({.algorithm = algorithm, .window = 1s}, false).count(), 6u);
    }
}

TEST(DebtArguments, OfABucketLeadNoFurtherThanTheLongestDebtWhateverTheCost) {
    const auto longest = static_cast<uint64_t>(rate_limit::longest_debt.count());
    for (const Algorithm algorithm : buckets) {
        Quota quota{.algorithm = algorithm, .window = 24h, .limit = 1};
        quota.cost = 3652;
        EXPECT_EQ(words_of(debt_arguments(quota, false))[0],
                  std::to_string(std::chrono::microseconds(quota.cost * 24h).count()));
        // 213,503,983 days are the last below 2^64 microseconds
        for (const uint64_t cost : {3654UL, 213'503'982UL, 213'503'983UL, 213'503'984UL,
                                    427'007'968UL, 1'000'000'000UL}) {
            quota.cost = cost;
            EXPECT_EQ(words_of(debt_arguments(quota, false))[0], std::to_string(longest)) << cost;
            EXPECT_EQ(words_of(debt_arguments(quota, false))[1], "0") << cost;
        }
        quota.window = rate_limit::longest_window;
        quota.limit = 7;
        EXPECT_EQ(words_of(debt_arguments(quota, false))[0], std::to_string(longest));
    }
}

TEST(RefundArguments, TellWhatWasTakenAndTheReceipt) {
    EXPECT_EQ(refund(quota_costing(Algorithm::fixed_window, 7)),
              (WireCommand{"7", "60000000", "1700000000000000"}));
    EXPECT_EQ(refund(quota_costing(Algorithm::sliding_log, 7)),
              (WireCommand{"7", "60000000", "1700000000000000"}));
    EXPECT_EQ(refund(quota_costing(Algorithm::sliding_window, 7)),
              (WireCommand{"7", "60000000", "1700000000000000"}));
}

TEST(RefundArguments, OfABucketAreThoseOfItsCheck) {
    for (const Algorithm algorithm : buckets) {
        const Quota quota{
            .algorithm = algorithm, .window = 1s, .limit = 700'000, .burst = 3, .cost = 3};
        const WireCommand of_check = check(quota);
        // the time in which the capacity of 3 or 4 units comes back, 10/7 us each
        const std::string refill = algorithm == Algorithm::token_bucket ? "5" : "6";
        EXPECT_EQ(refund(quota), (WireCommand{of_check[0], of_check[1], of_check[4],
                                              "1700000000000000", "0", "0", refill}));
        EXPECT_EQ(words_of(refund_arguments(
                      quota, {.receipt = 7, .made = 1'700'000'000s, .led_to = 1'700'000'001s})),
                  (WireCommand{of_check[0], of_check[1], of_check[4], "7", "1700000000000000",
                               "1700000001000000", refill}));
    }
}

} // namespace
} // namespace redis_client
