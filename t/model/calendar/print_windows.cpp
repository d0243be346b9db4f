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
#include <memory>
#include <sstream>
#include <string>

int main() {
    using namespace rate_limit;
    CalendarName name;
    std::shared_ptr<const TimeZone> zone;
    std::string line;
    while (std::getline(std::cin, line)) {
        if (line.find(' ') != std::string::npos) {
            std::istringstream words(line);
            std::string unit;
            words >> name.time_zone >> unit >> name.starts;
            name.unit = *calendar_unit_named(unit);
            zone = find_time_zone(name.time_zone);
            if (zone == nullptr) {
                std::printf("no zone %s\n", name.time_zone.c_str());
                return 1;
            }
            continue;
        }
        const Calendar calendar(name, zone); // a new one, which remembers no window
        const char *separator = "";
        for (const auto boundary :
             calendar.around(std::chrono::seconds(std::atoll(line.c_str())))) {
            const auto time = std::chrono::floor<std::chrono::seconds>(boundary);
            std::printf("%s%lld", separator, static_cast<long long>(time.count()));
            separator = " ";
        }
        std::printf("\n");
    }
    return 0;
}
