// Windows that a calendar says: days, weeks, months, quarters and years of a time zone. They follow
// each other without a gap, and have different lengths.
//
// Which of them an instant is in depends on nothing but the calendar and the instant. So hosts that
// have the same tz data agree, whatever their clocks say.
#pragma once

#include "rate_limit/calendar/time_zone.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace rate_limit {

enum class CalendarUnit : uint8_t { day, week, month, quarter, year };

std::optional<CalendarUnit> calendar_unit_named(std::string_view name);
std::string_view to_string(CalendarUnit unit);
/// As a message lists them: `day, week, month, quarter or year`.
std::string names_of_calendar_units(bool (*has)(CalendarUnit unit) = [](CalendarUnit) {
    return true;
});

/// Whether windows of the unit may begin on another day than the first of a month.
constexpr bool may_start_later(CalendarUnit unit) {
    return unit >= CalendarUnit::month;
}

/// Every month has this day.
inline constexpr uint64_t latest_start = 28;

/// What tells the windows of a rule from others.
struct CalendarName {
    CalendarUnit unit = CalendarUnit::month;
    uint64_t starts = 1; // the day of the month, to latest_start
    std::string time_zone = std::string(utc);

    /// Returns `month`, or `month-15@Europe/Berlin`: what is the default stays away.
    std::string text() const;
    /// Returns the parameters of a rule: `window=month starts=15 timezone=Europe/Berlin`, or less.
    std::string parameters() const;
};

/// Whether a text is one that CalendarName::text() may return; other hosts may know other zones.
bool is_calendar_name(std::string_view text);

/// A time from its beginning until before its end.
struct CalendarWindow {
    std::chrono::microseconds begin; // in Unix time, whole seconds
    std::chrono::microseconds end;

    std::chrono::microseconds length() const { return end - begin; }
    bool contains(std::chrono::microseconds unix_time) const {
        return begin <= unix_time && unix_time < end;
    }
};

class Calendar {
  public:
    Calendar(const CalendarName &parts, std::shared_ptr<const TimeZone> zone)
        : parts_(parts), name_(parts.text()), zone_(std::move(zone)) {}

    const CalendarName &parts() const { return parts_; }
    /// Their text: calendars of one name have the same windows.
    const std::string &name() const { return name_; }
    /// No window is longer.
    std::chrono::milliseconds longest_window() const;

    CalendarWindow window_at(std::chrono::microseconds unix_time) const;

    /// The beginning of the window before the one at an instant; that one's beginning and end; and
    /// the end of the window after it.
    using Boundaries = std::array<std::chrono::microseconds, 4>;
    const Boundaries &around(std::chrono::microseconds unix_time) const;

  private:
    Day first_day_near(Day day) const;
    Day next_first_day(Day first_day, int direction) const;
    Boundaries find_boundaries(std::chrono::seconds unix_time) const;

    CalendarName parts_;
    std::string name_;
    std::shared_ptr<const TimeZone> zone_;
    // What around() has found last: it is asked many times in one window. A process has one thread.
    mutable Boundaries last_{};
};

} // namespace rate_limit
