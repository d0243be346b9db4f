#include "rate_limit/text/text_writer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;

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
