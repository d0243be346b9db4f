// A key that is gone before what it holds counts no more is found, and no other one.

#include "simulation/lives.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace simulation {
namespace {

constexpr int64_t one_second = 1'000'000;
constexpr int64_t forgotten_us = 1000 * one_second; // what the key holds

std::string bytes_of_number(int64_t number) {
    std::string bytes(sizeof(number), '\0');
    std::memcpy(bytes.data(), &number, sizeof(number));
    return bytes;
}

/// What a script answers: the time, and how much of what the key holds is left.
std::string answer_of_script(int64_t clock_us) {
    return bytes_of_number(clock_us) +
           bytes_of_number(std::max<int64_t>(forgotten_us - clock_us, 0));
}

TEST(LivesTest, WantsFiveSecondsBeyondTheState) {
    EXPECT_FALSE(
        is_forgotten_too_early(forgotten_us + 5 * one_second, one_second, answer_of_script));
    EXPECT_FALSE(
        is_forgotten_too_early(forgotten_us + 500 * one_second, one_second, answer_of_script));
    EXPECT_TRUE(is_forgotten_too_early(forgotten_us + 5 * one_second - 20'000, one_second,
                                       answer_of_script));
    EXPECT_TRUE(
        is_forgotten_too_early(forgotten_us - 50 * one_second, one_second, answer_of_script));
}

TEST(LivesTest, LooksAgainWhenWindowsBeginAlike) {
    const auto with_window =
        [](int64_t clock_us) { // as a window that slides answers, without any state
            return bytes_of_number(clock_us) + bytes_of_number(clock_us % one_second);
        };
    EXPECT_FALSE(is_forgotten_too_early(forgotten_us + 3, 7 * one_second, with_window));
    EXPECT_TRUE(is_forgotten_too_early(forgotten_us + 3, one_second / 2, with_window));
}

TEST(LivesTest, KnowsWhenWindowsBeginAlike) {
    const std::array<std::string_view, 3> keys{"rl:{z:k}:gcra:400:r0",
                                               "rl:{z:k}:fixed_window:600:r1",
                                               "rl:{z:k}:fixed_window:600:r1#block"};
    EXPECT_EQ(common_window_us(keys), 1'200'000);
    const std::array<std::string_view, 2> of_calendar{keys[0], "rl:{z:k}:fixed_window:month:r1"};
    EXPECT_EQ(common_window_us(of_calendar), std::nullopt);
    const std::array<std::string_view, 2> too_far{"rl:{z:k}:gcra:2147483647",
                                                  "rl:{z:k}:gcra:2147483646"};
    EXPECT_EQ(common_window_us(too_far), std::nullopt);
}

TEST(LivesTest, KnowsAlgorithmsByTheNamesOfKeys) {
    EXPECT_TRUE(is_of_permits("rl:{z:k}:concurrency:60000:r0"));
    EXPECT_FALSE(is_of_permits("rl:{z:concurrency:}:gcra:400:r0"));
    EXPECT_TRUE(is_of_bucket("rl:{z:k%#1/3}:leaky_bucket:400:r0"));
    EXPECT_FALSE(is_of_bucket("rl:{z:gcra:}:sliding_log:400:gcra"));
}

} // namespace
} // namespace simulation
