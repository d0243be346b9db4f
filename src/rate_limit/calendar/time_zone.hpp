// Time zones of the system's tz database. They are read by the library cctz; a module that was
// built without it knows UTC alone.
#pragma once

#include "rate_limit/calendar/day.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

namespace rate_limit {

inline constexpr std::string_view utc = "UTC";

class TimeZone {
  public:
    virtual ~TimeZone() = default;

    /// Returns the day that it is there at an instant. Where clocks are put back over midnight, it
    /// is the day before once more.
    virtual Day day_at(std::chrono::seconds unix_time) const = 0;
    /// Returns the first instant at which it is that day there, or a later one: of two midnights
    /// the first, of a day that the zone skips that of the day after it.
    virtual std::chrono::seconds begin_of(Day day) const = 0;
};

inline constexpr size_t longest_time_zone_name = 40;

/// Whether a text may name a time zone: parts of `A-Za-z0-9_+-`, joined by `/`. Files beside the
/// zones, and copies of all of them, may not be named: `localtime`, `posixrules`, `posix/...`,
/// `right/...`. Nor may `Factory`, by which the tz database says that nobody has chosen a zone.
bool is_time_zone_name(std::string_view text);

/// Whether this program knows more than UTC.
bool has_time_zones();

/// Returns null if there is no such zone, or, without the library, if it is not UTC. A zone is read
/// once in the life of a process and those that are forked from it.
std::shared_ptr<const TimeZone> find_time_zone(const std::string &name);

} // namespace rate_limit
