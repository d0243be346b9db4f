// Old names of time zones. In the tz database they are links to the names of today, and not every
// system has them: Debian 13 keeps many in a package of their own.
#pragma once

#include <string>

namespace rate_limit {

/// Returns the name that a time zone has today, `America/Los_Angeles` for `US/Pacific`, whether the
/// system has the old name or not. Returns nothing if the name is not an old one, or if the files
/// that the system has beside its time zones do not tell.
std::string newer_name_of_time_zone(const std::string &name);

} // namespace rate_limit
