// t/model/calendars.t compares the windows of all time zones with an independent source.
#include "rate_limit/calendar/calendar.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;

/// UTC.
microseconds at(Date date, std::chrono::seconds of_day = 0s) {
    return std::chrono::hours{24} * day_of(date) + of_day;
}

Calendar calendar_of(CalendarUnit unit, uint64_t starts = 1, const std::string &zone = "UTC") {
    return Calendar({.unit = unit, .starts = starts, .time_zone = zone}, find_time_zone(zone));
}

void expect_window(const CalendarWindow &window, microseconds begin, microseconds end) {
    EXPECT_EQ(window.begin, begin);
    EXPECT_EQ(window.end, end);
}

TEST(Calendar, OfUtcHasWindowsFromTheirFirstMidnightToTheNext) {
    const microseconds time = at({2028, 2, 29}, 13h) + 1us;
    expect_window(calendar_of(CalendarUnit::day).window_at(time), at({2028, 2, 29}),
                  at({2028, 3, 1}));
    expect_window(calendar_of(CalendarUnit::week).window_at(time), at({2028, 2, 28}),
                  at({2028, 3, 6}));
    expect_window(calendar_of(CalendarUnit::month).window_at(time), at({2028, 2, 1}),
                  at({2028, 3, 1}));
    expect_window(calendar_of(CalendarUnit::quarter).window_at(time), at({2028, 1, 1}),
                  at({2028, 4, 1}));
    expect_window(calendar_of(CalendarUnit::year).window_at(time), at({2028, 1, 1}),
                  at({2029, 1, 1}));
}

TEST(Calendar, AWindowHasItsBeginningAndNotItsEnd) {
    const Calendar months = calendar_of(CalendarUnit::month);
    const microseconds april = at({2026, 4, 1});
    EXPECT_EQ(months.window_at(april - 1us).end, april);
    EXPECT_EQ(months.window_at(april).begin, april);
    EXPECT_EQ(months.window_at(april - 1us).begin, at({2026, 3, 1}));
}

TEST(Calendar, WindowsMayStartOnAnotherDayOfTheMonth) {
    expect_window(calendar_of(CalendarUnit::month, 15).window_at(at({2026, 1, 14}, 23h)),
                  at({2025, 12, 15}), at({2026, 1, 15}));
    expect_window(calendar_of(CalendarUnit::month, 28).window_at(at({2026, 3, 1})),
                  at({2026, 2, 28}), at({2026, 3, 28}));
    expect_window(calendar_of(CalendarUnit::quarter, 15).window_at(at({2026, 4, 14})),
                  at({2026, 1, 15}), at({2026, 4, 15}));
    expect_window(calendar_of(CalendarUnit::year, 28).window_at(at({2026, 1, 27})),
                  at({2025, 1, 28}), at({2026, 1, 28}));
}

TEST(Calendar, BoundariesAreThoseOfThreeWindowsInARow) {
    const Calendar months = calendar_of(CalendarUnit::month, 15);
    const Calendar::Boundaries expected = {at({2026, 1, 15}), at({2026, 2, 15}), at({2026, 3, 15}),
                                           at({2026, 4, 15})};
    EXPECT_EQ(months.around(at({2026, 2, 15})), expected);
    EXPECT_EQ(months.around(at({2026, 3, 15}) - 1us), expected);
    EXPECT_EQ(months.around(at({2026, 3, 15}))[0], expected[1]);
    EXPECT_EQ(months.around(at({2026, 2, 15})), expected); // back again
}

TEST(Calendar, NoWindowIsLongerThanTheLongest) {
    for (const CalendarUnit unit : {CalendarUnit::day, CalendarUnit::week, CalendarUnit::month,
                                    CalendarUnit::quarter, CalendarUnit::year}) {
        const Calendar calendar = calendar_of(unit);
        for (microseconds time = at({2027, 1, 1}); time < at({2029, 1, 1});
             time = calendar.window_at(time).end) {
            EXPECT_LE(calendar.window_at(time).length(), calendar.longest_window());
        }
    }
}

class CalendarOfZone : public testing::Test {
  protected:
    void SetUp() override {
        if (!has_time_zones()) {
            GTEST_SKIP() << "built without cctz";
        }
    }
};

TEST_F(CalendarOfZone, DaysHave23Or25HoursWhereClocksChange) {
    const Calendar days = calendar_of(CalendarUnit::day, 1, "Europe/Berlin");
    expect_window(days.window_at(at({2026, 3, 29}, 12h)), at({2026, 3, 28}, 23h),
                  at({2026, 3, 29}, 22h));
    expect_window(days.window_at(at({2026, 10, 25}, 12h)), at({2026, 10, 24}, 22h),
                  at({2026, 10, 25}, 23h));
    expect_window(
        calendar_of(CalendarUnit::month, 15, "Europe/Berlin").window_at(at({2026, 10, 20})),
        at({2026, 10, 14}, 22h), at({2026, 11, 14}, 23h));
}

TEST_F(CalendarOfZone, ZonesMayBeHalvesAndQuartersOfAnHourAway) {
    expect_window(calendar_of(CalendarUnit::day, 1, "Asia/Kathmandu").window_at(at({2026, 5, 1})),
                  at({2026, 4, 30}, 18h + 15min), at({2026, 5, 1}, 18h + 15min));
    // half an hour of summer time
    EXPECT_EQ(calendar_of(CalendarUnit::day, 1, "Australia/Lord_Howe")
                  .window_at(at({2026, 4, 4}, 16h))
                  .length(),
              24h + 30min);
}

TEST_F(CalendarOfZone, ADayThatIsSkippedIsNoWindow) {
    const Calendar days = calendar_of(CalendarUnit::day, 1, "Pacific/Apia");
    const microseconds change = at({2011, 12, 30}, 10h); // from the 29th to the 31st
    const Calendar::Boundaries expected = {change - 24h, change, change + 24h, change + 48h};
    EXPECT_EQ(days.around(change), expected);
    EXPECT_EQ(days.around(change - 1us)[2], change);
    EXPECT_EQ(calendar_of(CalendarUnit::week, 1, "Pacific/Apia").window_at(change).length(),
              24h * 6);
}

TEST_F(CalendarOfZone, OfTwoMidnightsTheFirstOneCounts) {
    // at 1:00 it is 0:00 once more
    expect_window(calendar_of(CalendarUnit::day, 1, "America/Havana")
                      .window_at(at({2012, 11, 4}, 5h + 30min)),
                  at({2012, 11, 4}, 4h), at({2012, 11, 5}, 5h));
    // at 0:01 it is 23:01 of the day before once more, whose window is over
    const Calendar days = calendar_of(CalendarUnit::day, 1, "America/St_Johns");
    const microseconds midnight = at({2010, 11, 7}, 2h + 30min);
    EXPECT_EQ(days.window_at(midnight + 30min).begin, midnight);
    EXPECT_EQ(days.window_at(midnight + 30min).length(), 25h);
    EXPECT_EQ(days.window_at(midnight - 1us).end, midnight);
}

TEST_F(CalendarOfZone, ADayThatBeginsAtOneHasNoMidnight) {
    expect_window(
        calendar_of(CalendarUnit::day, 1, "Africa/Cairo").window_at(at({2023, 4, 28}, 12h)),
        at({2023, 4, 27}, 22h), at({2023, 4, 28}, 21h));
}

TEST_F(CalendarOfZone, ADayMayBeginWithTheHalfHourAfterItsMidnight) {
    // clocks were put forward at 23:30
    EXPECT_EQ(calendar_of(CalendarUnit::day, 1, "America/Toronto")
                  .window_at(at({1919, 3, 31}, 12h))
                  .begin,
              at({1919, 3, 31}, 4h + 30min));
}

TEST_F(CalendarOfZone, UnknownNamesHaveNone) {
    EXPECT_NE(find_time_zone("Europe/Berlin"), nullptr);
    EXPECT_NE(find_time_zone("UTC"), nullptr);
    for (const char *name :
         {"Europe/Atlantis", "europe/berlin", "Europe", "zone.tab", "../zoneinfo/Europe/Berlin",
          "/etc/localtime", "localtime", "libc:localtime", "Fixed/UTC+01:00:00",
          "posix/Europe/Berlin", "leapseconds", ""}) {
        EXPECT_EQ(find_time_zone(name), nullptr) << name;
    }
}

TEST(TimeZone, HasANameOfAFewBytes) {
    for (const char *name :
         {"UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+12", "Etc/GMT-14",
          "EST5EDT", "W-SU", "a2345678901234567890/2345678901234567890"}) {
        EXPECT_TRUE(is_time_zone_name(name)) << name;
    }
    for (const char *name :
         {"", "/", "Europe/", "/Berlin", "Europe//Berlin", "..", "../UTC", "Europe/Berlin ", "a b",
          "zone.tab", "localtime", "posixrules", "Factory", "posix/UTC", "right/UTC", "$zone",
          "a2345678901234567890/2345678901234567890x", "Europe:Berlin", "Europe@Berlin"}) {
        EXPECT_FALSE(is_time_zone_name(name)) << name;
    }
}

TEST(CalendarName, LeavesDefaultsAway) {
    const auto text = [](CalendarUnit unit, uint64_t starts, const char *zone) {
        return CalendarName{.unit = unit, .starts = starts, .time_zone = zone}.text();
    };
    EXPECT_EQ(text(CalendarUnit::month, 1, "UTC"), "month");
    EXPECT_EQ(text(CalendarUnit::quarter, 15, "UTC"), "quarter-15");
    EXPECT_EQ(text(CalendarUnit::day, 1, "Europe/Berlin"), "day@Europe/Berlin");
    EXPECT_EQ(text(CalendarUnit::year, 28, "Etc/GMT+5"), "year-28@Etc/GMT+5");
}

TEST(CalendarName, IsKnownByItsText) {
    for (const char *text : {"day", "week", "month", "quarter", "year", "month-2", "month-28",
                             "quarter-15@A/B", "year@Some/Where", "week@X", "month-15@Etc/GMT-5"}) {
        EXPECT_TRUE(is_calendar_name(text)) << text;
    }
    for (const char *text : {"", "60000", "fortnight", "month-1", "month-01", "month-0", "month-29",
                             "month-", "day-2", "week-2", "month@", "month@UTC", "month@posix/UTC",
                             "month-15-3", "month@A:B", "Month", "month-15@A@B", "-15", "@A"}) {
        EXPECT_FALSE(is_calendar_name(text)) << text;
    }
}

TEST(CalendarName, IsWrittenAsParameters) {
    EXPECT_EQ(CalendarName{}.parameters(), "window=month");
    EXPECT_EQ(
        (CalendarName{.unit = CalendarUnit::year, .starts = 3, .time_zone = "A/B"}.parameters()),
        "window=year starts=3 timezone=A/B");
}

} // namespace
} // namespace rate_limit
