#include "rate_limit/calendar/calendar.hpp"

#include "rate_limit/enum_table.hpp"
#include "rate_limit/text/row_names.hpp"
#include "rate_limit/text/times_and_numbers.hpp"

#include <algorithm>

namespace rate_limit {

namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

struct UnitTraits {
    CalendarUnit unit;
    std::string_view name;
    int64_t months;       // 0: it has days
    int64_t days;         // 0: it has months
    int64_t longest_days; // with a day more, for the zones that repeat one
};

constexpr std::array unit_table = {
    UnitTraits{CalendarUnit::day, "day", 0, 1, 2},
    UnitTraits{CalendarUnit::week, "week", 0, 7, 8},
    UnitTraits{CalendarUnit::month, "month", 1, 0, 32},
    UnitTraits{CalendarUnit::quarter, "quarter", 3, 0, 93},
    UnitTraits{CalendarUnit::year, "year", 12, 0, 367},
};
static_assert(is_in_order(unit_table, &UnitTraits::unit));

constexpr const UnitTraits &traits_of(CalendarUnit unit) {
    return unit_table[static_cast<size_t>(unit)];
}

constexpr char before_start = '-';
constexpr char before_zone = '@';

} // namespace

std::optional<CalendarUnit> calendar_unit_named(std::string_view name) {
    const auto *const found = std::ranges::find(unit_table, name, &UnitTraits::name);
    return found != unit_table.end() ? std::optional(found->unit) : std::nullopt;
}

std::string_view to_string(CalendarUnit unit) {
    return traits_of(unit).name;
}

std::string names_of_calendar_units(bool (*has)(CalendarUnit unit)) {
    return names_of_rows(unit_table, [has](const UnitTraits &row) { return has(row.unit); });
}

std::string CalendarName::text() const {
    std::string text(to_string(unit));
    if (starts != 1) {
        text += before_start + std::to_string(starts);
    }
    if (time_zone != utc) {
        text += before_zone + time_zone;
    }
    return text;
}

std::string CalendarName::parameters() const {
    std::string parameters = "window=" + std::string(to_string(unit));
    if (starts != 1) {
        parameters += " starts=" + std::to_string(starts);
    }
    if (time_zone != utc) {
        parameters += " timezone=" + time_zone;
    }
    return parameters;
}

bool is_calendar_name(std::string_view text) {
    const size_t zone_at = text.find(before_zone);
    const std::string_view window = text.substr(0, zone_at);
    const size_t start_at = window.find(before_start);
    CalendarName name;
    const auto unit = calendar_unit_named(window.substr(0, start_at));
    if (!unit) {
        return false;
    }
    name.unit = *unit;
    if (start_at != std::string_view::npos) {
        name.starts = parse_whole_number(window.substr(start_at + 1), latest_start).value_or(0);
    }
    if (zone_at != std::string_view::npos) {
        name.time_zone = text.substr(zone_at + 1);
    }
    const bool may_start = name.starts == 1 || (name.starts > 1 && may_start_later(*unit));
    return may_start && is_time_zone_name(name.time_zone) && name.text() == text;
}

std::chrono::milliseconds Calendar::longest_window() const {
    return std::chrono::hours{24} * traits_of(parts_.unit).longest_days;
}

CalendarWindow Calendar::window_at(microseconds unix_time) const {
    const Boundaries &all = around(unix_time);
    return {.begin = all[1], .end = all[2]};
}

const Calendar::Boundaries &Calendar::around(microseconds unix_time) const {
    if (unix_time < last_[1] || unix_time >= last_[2]) {
        last_ = find_boundaries(std::chrono::floor<seconds>(unix_time));
    }
    return last_;
}

/// Returns the first day of the window that a day is in, or of the next one.
Day Calendar::first_day_near(Day day) const {
    const UnitTraits &unit = traits_of(parts_.unit);
    if (unit.months == 0) {
        return unit.days == 1 ? day : monday_of(day);
    }
    const Date date = date_of(day);
    const int64_t month = date.month - (date.month - 1) % unit.months;
    return day_of({.year = date.year, .month = month, .day = static_cast<int64_t>(parts_.starts)});
}

/// Returns the first day of the window after the one that begins on a day, or before it.
Day Calendar::next_first_day(Day first_day, int direction) const {
    const UnitTraits &unit = traits_of(parts_.unit);
    if (unit.months == 0) {
        return first_day + direction * unit.days;
    }
    Date date = date_of(first_day);
    date.month += direction * unit.months;
    return day_of(date);
}

/// A window of days that the zone skips begins when the next one does, and is none. Where clocks
/// are put back over midnight, the day before comes once more when the new window has begun.
Calendar::Boundaries Calendar::find_boundaries(seconds unix_time) const {
    Day first = first_day_near(zone_->day_at(unix_time));
    while (zone_->begin_of(first) > unix_time) {
        first = next_first_day(first, -1);
    }
    const auto end_after = [&](seconds begin) {
        seconds end = begin;
        while (end <= begin) {
            first = next_first_day(first, 1);
            end = zone_->begin_of(first);
        }
        return end;
    };
    seconds begin = zone_->begin_of(first);
    seconds end = end_after(begin);
    while (end <= unix_time) {
        begin = end;
        end = end_after(begin);
    }
    const seconds next_end = end_after(end);
    Day before = first_day_near(zone_->day_at(begin));
    while (zone_->begin_of(before) >= begin) {
        before = next_first_day(before, -1);
    }
    return {zone_->begin_of(before), begin, end, next_end};
}

} // namespace rate_limit
