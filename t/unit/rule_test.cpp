#include "rate_limit/rule.hpp"

#include <gtest/gtest.h>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;

Rule per_ip(std::chrono::milliseconds window) {
    Rule rule;
    rule.zone = "per_ip";
    rule.limit = 100;
    rule.window = window;
    return rule;
}

TEST(Rule, KnowsItsAlgorithmByName) {
    EXPECT_EQ(algorithm_named("sliding_log"), Algorithm::sliding_log);
    EXPECT_EQ(to_string(Algorithm::sliding_log), "sliding_log");
    for (const char *name : {"", "sliding", "sliding_log ", "SLIDING_LOG", "sliding_log2"}) {
        EXPECT_EQ(algorithm_named(name), std::nullopt) << name;
    }
}

TEST(Rule, BoundsItsLimitByAlgorithm) {
    EXPECT_EQ(largest_limit(Algorithm::sliding_log), 1'000'000u);
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

TEST(Rule, IsNamedAfterZoneAndWindow) {
    EXPECT_EQ(per_ip(60s).name(), "per_ip/60s");
    EXPECT_EQ(per_ip(1ms).name(), "per_ip/1ms");
    EXPECT_EQ(per_ip(500ms).name(), "per_ip/500ms");
    EXPECT_EQ(per_ip(1s).name(), "per_ip/1s");
    EXPECT_EQ(per_ip(1500ms).name(), "per_ip/1500ms");
    EXPECT_EQ(per_ip(longest_window).name(), "per_ip/31622400s");
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
    other.limit = 7;
    EXPECT_TRUE(rule.same_counter(other));
}

TEST(Rule, SharesNoCounterWithADifferentRule) {
    const Rule rule = per_ip(60s);
    Rule other = rule;
    other.zone = "per_user";
    EXPECT_FALSE(rule.same_counter(other));
    EXPECT_FALSE(rule.same_counter(per_ip(61s)));
    other = rule;
    other.explicit_name = rule.name(); // given, not the default
    EXPECT_FALSE(rule.same_counter(other));
}

} // namespace
} // namespace rate_limit
