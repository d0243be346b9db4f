#include "rate_limit/text/times_and_numbers.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;

TEST(Parse, TakesWholeDecimalNumbers) {
    EXPECT_EQ(parse_whole_number("0", 10), 0u);
    EXPECT_EQ(parse_whole_number("10", 10), 10u);
    EXPECT_EQ(parse_whole_number("007", 10), 7u);
    EXPECT_EQ(parse_whole_number("18446744073709551615", UINT64_MAX), UINT64_MAX);
}

TEST(Parse, RefusesEverythingElse) {
    for (const char *text : {"", " 1", "1 ", "-1", "+1", "1.0", "0x10", "1e3", "inf", "nan", "11",
                             "18446744073709551616", "99999999999999999999999"}) {
        EXPECT_EQ(parse_whole_number(text, 10), std::nullopt) << text;
    }
    EXPECT_EQ(parse_whole_number(std::string_view("1\0", 2), 10), std::nullopt);
}

TEST(Parse, MayEndAtTheLargestNumber) {
    EXPECT_EQ(parse_saturated_number("0", 10), 0u);
    EXPECT_EQ(parse_saturated_number("10", 10), 10u);
    for (const char *text : {"11", "18446744073709551616", "99999999999999999999999"}) {
        EXPECT_EQ(parse_saturated_number(text, 10), 10u) << text;
    }
    for (const char *text :
         {"", " 1", "1 ", "-1", "+1", "1.0", "0x10", "1e3", "99999999999999999999999x"}) {
        EXPECT_EQ(parse_saturated_number(text, 10), std::nullopt) << text;
    }
}

TEST(ParseTime, TakesWhatNginxTakes) {
    EXPECT_EQ(parse_time("60"), 60s);
    EXPECT_EQ(parse_time("60s"), 60s);
    EXPECT_EQ(parse_time("500ms"), 500ms);
    EXPECT_EQ(parse_time("1m30s"), 90s);
    EXPECT_EQ(parse_time("1m30"), 90s);
    EXPECT_EQ(parse_time("1w2d3h4m5s6ms"), ((9 * 24 + 3) * 60 + 4) * 60s + 5006ms);
    EXPECT_EQ(parse_time("1h 1m"), 61min);
    EXPECT_EQ(parse_time("1 30"), 31s);
    EXPECT_EQ(parse_time("0"), 0s);
}

TEST(ParseTime, RefusesEverythingElse) {
    for (const char *text :
         {"", "s", "-1", "1x", "1m1h", "1s1s", "1ms1s", "1y", "1M", "1 30s", "1s 30 ",
          "9223372036854775807", "9223372036854775808", "99999999999w", "0x1", "1.5s"}) {
        EXPECT_LT(parse_time(text), 0s) << text;
    }
}

TEST(ParseSize, TakesWhatNginxTakes) {
    EXPECT_EQ(parse_size("8192"), 8192u);
    EXPECT_EQ(parse_size("32k"), 32u * 1024);
    EXPECT_EQ(parse_size("32K"), 32u * 1024);
    EXPECT_EQ(parse_size("10m"), 10u * 1024 * 1024);
    EXPECT_EQ(parse_size("10M"), 10u * 1024 * 1024);
    for (const char *text :
         {"", "k", "1g", "-1", "1 k", "99999999999999999999k", "18446744073709551615m"}) {
        EXPECT_EQ(parse_size(text), std::nullopt) << text;
    }
}

} // namespace
} // namespace rate_limit
