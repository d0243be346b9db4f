#include "rate_limit/headers.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;

Rule rule_of(std::string zone, uint64_t limit, std::chrono::milliseconds window) {
    Rule rule;
    rule.zone = std::move(zone);
    rule.limit = limit;
    rule.window = window;
    return rule;
}

std::string item(std::string_view name, const Verdict &verdict) {
    ItemBuffer out;
    return std::string(write_rate_limit_item(name, verdict, out));
}

TEST(Headers, WriteEveryNumber) {
    NumberBuffer out;
    for (const uint64_t number : {uint64_t{0}, uint64_t{7}, uint64_t{1'000'000}, UINT64_MAX}) {
        EXPECT_EQ(write_number(number, out), std::to_string(number));
    }
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

TEST(Headers, TellThePolicy) {
    EXPECT_EQ(rate_limit_policy_item(rule_of("per_ip", 100, 60s)), R"("per_ip/60s";q=100;w=60)");
    EXPECT_EQ(rate_limit_policy_item(rule_of("per_ip", 0, 1h)), R"("per_ip/3600s";q=0;w=3600)");
    EXPECT_EQ(rate_limit_policy_item(rule_of("z", 1'000'000, 1ms)), R"("z/1ms";q=1000000;w=1)");
    EXPECT_EQ(rate_limit_policy_item(rule_of("z", 5, 1001ms)), R"("z/1001ms";q=5;w=2)");
    Rule named = rule_of("per_ip", 100, 60s);
    named.explicit_name = "api";
    EXPECT_EQ(rate_limit_policy_item(named), R"("api";q=100;w=60)");
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

TEST(Headers, FitTheirBufferAtTheirLongest) {
    const std::string name(longest_name, 'n');
    EXPECT_EQ(item(name, {.remaining = UINT64_MAX, .next_unit = std::chrono::microseconds::max()}),
              "\"" + name + "\";r=18446744073709551615;t=9223372036855");
}

} // namespace
} // namespace rate_limit
