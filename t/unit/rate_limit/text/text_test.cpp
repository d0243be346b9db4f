#include "rate_limit/text/text.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

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

TEST(WriteNumber, WritesEveryNumber) {
    NumberBuffer out;
    for (const uint64_t number : {uint64_t{0}, uint64_t{7}, uint64_t{1'000'000}, UINT64_MAX}) {
        EXPECT_EQ(write_number(number, out), std::to_string(number));
    }
}

TEST(TextWriterTest, CountsWhatDoesNotFit) {
    std::string text = "......";
    TextWriter out({text.data(), 5});
    out << "abc" << uint64_t{123} << "x" << Seconds{1500ms};
    EXPECT_EQ(text, "abc12.");
    EXPECT_EQ(out.size(), 10);
}

TEST(TextWriterTest, SecondsHaveNoNeedlessDigits) {
    const std::pair<std::chrono::microseconds, std::string_view> cases[] = {
        {0s, "0"},          {1s, "1"},
        {60s, "60"},        {500ms, "0.5"},
        {1us, "0.000001"},  {412us, "0.000412"},
        {10ms, "0.01"},     {1010203us, "1.010203"},
        {64us, "0.000064"}, {16777216us, "16.777216"}};
    for (const auto &[time, expected] : cases) {
        std::array<char, 32> text;
        TextWriter out(text);
        out << Seconds{time};
        EXPECT_EQ(std::string_view(text.data(), out.size()), expected);
    }
}

} // namespace
} // namespace rate_limit
