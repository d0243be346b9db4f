// Prints the boundaries of calendar windows, for windows.py. Each line of standard input is either
//
//     ZONE UNIT STARTS    which calendar the next lines ask
//     TIME                seconds since 1970
//
// and for each time four numbers are printed.
#include "rate_limit/calendar/calendar.hpp"

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>

int main() {
    using namespace rate_limit;
    std::optional<Calendar> calendar;
    std::string line;
    while (std::getline(std::cin, line)) {
        if (line.find(' ') != std::string::npos) {
            std::istringstream words(line);
            CalendarName name;
            std::string unit;
            words >> name.time_zone >> unit >> name.starts;
            name.unit = *calendar_unit_named(unit);
            auto zone = find_time_zone(name.time_zone);
            if (zone == nullptr) {
                std::printf("no zone %s\n", name.time_zone.c_str());
                return 1;
            }
            calendar.emplace(name, std::move(zone));
            continue;
        }
        const auto boundaries = calendar->around(std::chrono::seconds(std::atoll(line.c_str())));
        for (const auto &boundary : boundaries) {
            std::printf(
                "%lld%c",
                static_cast<long long>(std::chrono::floor<std::chrono::seconds>(boundary).count()),
                &boundary == &boundaries.back() ? '\n' : ' ');
        }
    }
    return 0;
}
