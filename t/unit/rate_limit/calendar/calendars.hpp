// Calendars for tests. They need no time zones.
#pragma once

#include "rate_limit/calendar/calendar.hpp"

#include <chrono>
#include <memory>

namespace rate_limit {

inline std::shared_ptr<const Calendar> utc_calendar(CalendarUnit unit, uint64_t starts = 1) {
    return std::make_shared<const Calendar>(CalendarName{.unit = unit, .starts = starts},
                                            find_time_zone("UTC"));
}

/// The beginning of a day of UTC, in Unix time.
inline std::chrono::microseconds midnight_of(Date date) {
    return std::chrono::hours{24} * day_of(date);
}

} // namespace rate_limit
