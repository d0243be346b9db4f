#include "rate_limit/text/header_values.hpp"

#include "unit/rate_limit/algorithms.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;

std::string policy(std::string_view name, const Quota &quota) {
    ItemBuffer out;
    return std::string(write_rate_limit_policy_item(name, quota, out));
}

Quota limit_of(uint64_t limit, std::chrono::milliseconds window) {
    return {.window = window, .limit = limit};
}

std::string item(std::string_view name, const Verdict &verdict) {
    ItemBuffer out;
    return std::string(write_rate_limit_item(name, verdict, out));
}

TEST(Headers, RoundSecondsUp) {
    EXPECT_EQ(seconds_up(0us), 0u);
    EXPECT_EQ(seconds_up(1us), 1u);
    EXPECT_EQ(seconds_up(999'999us), 1u);
    EXPECT_EQ(seconds_up(1s), 1u);
    EXPECT_EQ(seconds_up(1s + 1us), 2u);
    EXPECT_EQ(seconds_up(366 * 24h), 31'622'400u);
    EXPECT_EQ(seconds_up(std::chrono::microseconds::max()), 9'223'372'036'855u);
}

TEST(Headers, TellThePolicyOfAWindow) {
    EXPECT_EQ(policy("per_ip/60s", limit_of(100, 60s)), R"("per_ip/60s";q=100;w=60)");
    EXPECT_EQ(policy("per_ip/3600s", limit_of(0, 1h)), R"("per_ip/3600s";q=0;w=3600)");
    EXPECT_EQ(policy("z/1ms", limit_of(1'000'000, 1ms)), R"("z/1ms";q=1000000;w=1)");
    EXPECT_EQ(policy("api", limit_of(5, 1001ms)), R"("api";q=5;w=2)");
}

TEST(Headers, TellThePolicyOfABucketByTheTimeItTakesToFill) {
    Quota quota{.algorithm = Algorithm::token_bucket, .window = 60s, .limit = 100};
    EXPECT_EQ(policy("z", quota), R"("z";q=100;w=60)");
    quota.burst = 250;
    EXPECT_EQ(policy("z", quota), R"("z";q=250;w=150)");
    quota.algorithm = Algorithm::gcra;
    EXPECT_EQ(policy("z", quota), R"("z";q=251;w=151)"); // 150.6
    quota.algorithm = Algorithm::leaky_bucket;
    EXPECT_EQ(policy("z", quota), R"("z";q=251;w=151)");
    quota.burst.reset();
    EXPECT_EQ(policy("z", quota), R"("z";q=1;w=1)");
    quota.limit = 0;
    EXPECT_EQ(policy("z", quota), R"("z";q=0;w=60)");
}

TEST(Headers, TellThePolicyOfConcurrencyByItsUnit) {
    const Quota quota{.algorithm = Algorithm::concurrency, .window = 60s, .limit = 10};
    EXPECT_EQ(policy("z/concurrency", quota), R"("z/concurrency";q=10;qu="concurrent-requests")");
}

TEST(Headers, TellWhatIsLeft) {
    EXPECT_EQ(item("per_ip/60s", {.remaining = 99, .next_unit = 60s, .reset = 60s}),
              R"("per_ip/60s";r=99;t=60)");
    EXPECT_EQ(item("z", {.next_unit = 1us, .reset = 10s}), R"("z";r=0;t=1)");
    EXPECT_EQ(item("z", {.remaining = 3, .next_unit = 2s + 1us}), R"("z";r=3;t=3)");
}

TEST(Headers, LeaveTimeOutWhenAllIsThere) {
    EXPECT_EQ(item("per_ip/60s", {.remaining = 100}), R"("per_ip/60s";r=100)");
    EXPECT_EQ(item("z", {.decision = Decision::never}), R"("z";r=0)");
}

const std::string longest(longest_name, 'n');

TEST(Headers, FitTheirBufferAtTheirLongest) {
    EXPECT_EQ(
        item(longest, {.remaining = UINT64_MAX, .next_unit = std::chrono::microseconds::max()}),
        "\"" + longest + "\";r=18446744073709551615;t=9223372036855");
    EXPECT_EQ(policy(longest, {.algorithm = Algorithm::concurrency, .limit = UINT64_MAX}),
              "\"" + longest + R"(";q=18446744073709551615;qu="concurrent-requests")");
    EXPECT_EQ(policy(longest, {.algorithm = Algorithm::token_bucket,
                               .window = longest_window,
                               .limit = 1,
                               .burst = UINT64_MAX}),
              "\"" + longest + "\";q=18446744073709551615;w=9223372036855");
}

TEST(Headers, FitTheirBufferWithADefaultNameOfTheLongestZone) {
    Rule rule;
    rule.zone = longest;
    rule.quota = limit_of(largest_number, longest_window - 1ms);
    EXPECT_EQ(policy(rule.name(), rule.quota),
              "\"" + longest + "/31622399999ms\";q=1000000000;w=31622400");
    rule.quota.algorithm = Algorithm::concurrency;
    EXPECT_EQ(policy(rule.name(), rule.quota),
              "\"" + longest + R"(/concurrency";q=1000000000;qu="concurrent-requests")");
}

/// An RFC 9651 item: a string, with parameters that are integers of up to 15 digits or strings.
bool is_item(const std::string &text) {
    static const std::string string = R"("[] !#-[^-~]*")";
    static const testing::Matcher<std::string> item =
        testing::MatchesRegex(string + "(;[a-z*][a-z0-9_.*-]*=(-?[0-9]{1,15}|" + string + "))*");
    return item.Matches(text);
}

TEST(Headers, AreStructuredFields) {
    for (const Algorithm algorithm : all_algorithms) {
        for (const uint64_t limit : {uint64_t{0}, uint64_t{1}, largest_number}) {
            for (const auto window : {shortest_window, longest_window}) {
                const Quota quota{.algorithm = algorithm, .window = window, .limit = limit};
                const std::string text = policy("Az09._/-", quota);
                EXPECT_TRUE(is_item(text)) << text;
            }
        }
    }
    EXPECT_TRUE(is_item(item("z", {.remaining = largest_number, .next_unit = longest_refill})));
    EXPECT_TRUE(is_item(item("z", {})));
    for (const char *no_item : {"z;r=1", "\"z\";r=", "\"z\" ;r=1", "\"z\";r=1,", "\"z"}) {
        EXPECT_FALSE(is_item(no_item)) << no_item;
    }
}

} // namespace
} // namespace rate_limit
