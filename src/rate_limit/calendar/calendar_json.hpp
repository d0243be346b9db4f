// How JSON tells the windows of a calendar.
#pragma once

#include "rate_limit/calendar/calendar.hpp"
#include "rate_limit/text/json_writer.hpp"

#include <string_view>

namespace rate_limit {

/// Writes members of an object: `"calendar": "month", "timezone": "Europe/Berlin", "starts": 15`.
template <typename Output>
void write_calendar(JsonWriter<Output> &json, const CalendarName &calendar) {
    json.member("calendar", to_string(calendar.unit));
    json.member("timezone", std::string_view(calendar.time_zone));
    json.member("starts", calendar.starts);
}

} // namespace rate_limit
