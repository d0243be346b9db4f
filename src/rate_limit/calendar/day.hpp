// Days of the Gregorian calendar as numbers, and back. g++ 10 has no calendar in <chrono>.
#pragma once

#include <chrono>
#include <cstdint>

namespace rate_limit {

/// A day without a time zone: how many days it is after 1970-01-01.
using Day = int64_t;

struct Date {
    int64_t year;
    int64_t month; // from 1
    int64_t day;   // from 1
    bool operator==(const Date &) const = default;
};

/// Returns the day of a date. A month beyond 12, or before 1, is one of another year.
Day day_of(Date date);
Date date_of(Day day);

/// Returns the Monday of the day's week.
Day monday_of(Day day);

/// Returns the day of UTC at an instant, also before 1970.
Day day_at(std::chrono::seconds unix_time);

} // namespace rate_limit
