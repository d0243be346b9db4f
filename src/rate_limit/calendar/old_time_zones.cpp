#include "rate_limit/calendar/old_time_zones.hpp"

#include "rate_limit/calendar/time_zone.hpp"

#include <fstream>
#include <optional>
#include <sstream>

namespace rate_limit {

namespace {

/// Where systems have their time zones, and with them these files, which tell of the names.
constexpr const char *places_file = "/usr/share/zoneinfo/zone.tab";
constexpr const char *database_file = "/usr/share/zoneinfo/tzdata.zi";

enum class Listed { yes, no, unknown };

/// Returns the second field of the first line that counts and has the name as its third one.
template <typename Counts>
std::optional<std::string> find_name(std::ifstream &file, const std::string &name, Counts counts) {
    std::string line;
    while (std::getline(file, line)) {
        if (!counts(line)) {
            continue;
        }
        std::istringstream fields(line);
        std::string first;
        std::string second;
        std::string third;
        if (fields >> first >> second >> third && third == name) {
            return second;
        }
    }
    return std::nullopt;
}

/// Whether the name is that of a place: the line of a country has its code, coordinates and a name.
/// Some of these are links, too, and none is old.
Listed is_of_place(const std::string &name) {
    std::ifstream places(places_file);
    if (!places) {
        return Listed::unknown;
    }
    const auto is_country = [](const std::string &line) { return !line.starts_with('#'); };
    return find_name(places, name, is_country) ? Listed::yes : Listed::no;
}

/// Returns the name to which a name is a link, or nothing. The line of a link is `L target name`.
std::string target_of(const std::string &name) {
    std::ifstream database(database_file);
    const auto is_link = [](const std::string &line) { return line.starts_with("L "); };
    return find_name(database, name, is_link).value_or("");
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
