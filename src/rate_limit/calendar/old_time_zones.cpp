#include "rate_limit/calendar/old_time_zones.hpp"

#include "rate_limit/calendar/time_zone.hpp"

#include <fstream>
#include <sstream>

namespace rate_limit {

namespace {

/// Where systems have their time zones, and with them these files, which tell of the names.
constexpr const char *places_file = "/usr/share/zoneinfo/zone.tab";
constexpr const char *database_file = "/usr/share/zoneinfo/tzdata.zi";

enum class Listed { yes, no, unknown };

/// Whether the name is that of a place: the line of a country has its code, coordinates and a name.
/// Some of these are links, too, and none is old.
Listed is_of_place(const std::string &name) {
    std::ifstream places(places_file);
    if (!places) {
        return Listed::unknown;
    }
    std::string line;
    while (std::getline(places, line)) {
        std::istringstream fields(line);
        std::string country;
        std::string coordinates;
        std::string known;
        if (!line.starts_with('#') && fields >> country >> coordinates >> known && known == name) {
            return Listed::yes;
        }
    }
    return Listed::no;
}

/// Returns the name to which a name is a link, or nothing. The line of a link is `L target name`.
std::string target_of(const std::string &name) {
    std::ifstream database(database_file);
    std::string line;
    while (std::getline(database, line)) {
        std::istringstream fields(line);
        std::string kind;
        std::string target;
        std::string link;
        if (line.starts_with("L ") && fields >> kind >> target >> link && link == name) {
            return target;
        }
    }
    return {};
}

/// The names that have no place, and are links in some versions of the database, are not old.
bool is_of_no_place(const std::string &name) {
    return name == utc || name == "GMT" || name.starts_with("Etc/");
}

} // namespace

std::string newer_name_of_time_zone(const std::string &name) {
    if (is_of_no_place(name) || is_of_place(name) != Listed::no) {
        return {};
    }
    const std::string target = target_of(name);
    return !target.empty() && find_time_zone(target) != nullptr ? target : std::string();
}

} // namespace rate_limit
