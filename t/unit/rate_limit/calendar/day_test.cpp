#include "rate_limit/calendar/day.hpp"

#include <gtest/gtest.h>

namespace rate_limit {
namespace {

TEST(Day, CountsFromTheFirstDayOf1970) {
    EXPECT_EQ(day_of({1970, 1, 1}), 0);
    EXPECT_EQ(day_of({1970, 1, 2}), 1);
    EXPECT_EQ(day_of({1969, 12, 31}), -1);
    EXPECT_EQ(day_of({2000, 3, 1}), 11'017);
    EXPECT_EQ(day_of({2026, 11, 26}), 20'783);
}

TEST(Day, EachHasADateThatFollowsTheOneBefore) {
    constexpr int64_t days_of_month[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    Date expected{1599, 12, 31};
    const Day first = day_of(expected);
    for (Day day = first; expected.year < 2405; ++day) {
        ASSERT_EQ(date_of(day), expected) << day;
        ASSERT_EQ(day_of(expected), day);
        const bool is_leap =
            expected.year % 4 == 0 && (expected.year % 100 != 0 || expected.year % 400 == 0);
        const int64_t last =
            days_of_month[expected.month - 1] + (is_leap && expected.month == 2 ? 1 : 0);
        if (++expected.day > last) {
            expected.day = 1;
            if (++expected.month > 12) {
                expected.month = 1;
                ++expected.year;
            }
        }
    }
}

TEST(Day, AMonthBeyondTheYearIsOneOfAnother) {
    EXPECT_EQ(day_of({2026, 13, 15}), day_of({2027, 1, 15}));
    EXPECT_EQ(day_of({2026, 0, 15}), day_of({2025, 12, 15}));
    EXPECT_EQ(day_of({2026, -2, 1}), day_of({2025, 10, 1}));
    EXPECT_EQ(day_of({2026, 24, 28}), day_of({2027, 12, 28}));
}

TEST(Day, WeeksBeginOnMonday) {
    const Day monday = day_of({2026, 11, 23});
    for (Day day = monday; day < monday + 7; ++day) {
        EXPECT_EQ(monday_of(day), monday);
    }
    EXPECT_EQ(monday_of(monday - 1), monday - 7);
    EXPECT_EQ(monday_of(0), -3);
    EXPECT_EQ(monday_of(-4), -10);
}

TEST(Day, OfAnInstantIsThatOfUtc) {
    using namespace std::chrono_literals;
    EXPECT_EQ(day_at(0s), 0);
    EXPECT_EQ(day_at(86'399s), 0);
    EXPECT_EQ(day_at(86'400s), 1);
    EXPECT_EQ(day_at(-1s), -1);
    EXPECT_EQ(day_at(-86'400s), -1);
}

} // namespace
} // namespace rate_limit
