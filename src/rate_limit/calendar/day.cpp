#include "rate_limit/calendar/day.hpp"

namespace rate_limit {

namespace {

constexpr int64_t days_of_400_years = 146'097;
constexpr int64_t days_until_1970 = 719'468; // from the day 0000-03-01

int64_t floor_divided(int64_t number, int64_t by) {
    return (number - (number % by + by) % by) / by;
}

} // namespace

// Years that begin in March have their leap day at the end, so that the days before a month follow
// from its number: 31, 30, 31, 30, 31 and again.

Day day_of(Date date) {
    const int64_t months = 12 * date.year + date.month - 3; // since March of the year 0
    const int64_t year = floor_divided(months, 12);
    const int64_t days_before_month = (153 * (months - 12 * year) + 2) / 5;
    return 365 * year + floor_divided(year, 4) - floor_divided(year, 100) +
           floor_divided(year, 400) + days_before_month + date.day - 1 - days_until_1970;
}

Date date_of(Day day) {
    const int64_t days = day + days_until_1970;
    const int64_t era = floor_divided(days, days_of_400_years);
    const int64_t of_era = days - era * days_of_400_years;
    const int64_t year_of_era =
        (of_era - of_era / 1460 + of_era / 36'524 - of_era / (days_of_400_years - 1)) / 365;
    const int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    const int64_t months_after_march = (5 * of_year + 2) / 153;
    const bool is_next_year = months_after_march >= 10; // January or February
    return {.year = 400 * era + year_of_era + (is_next_year ? 1 : 0),
            .month = months_after_march + (is_next_year ? -9 : 3),
            .day = of_year - (153 * months_after_march + 2) / 5 + 1};
}

Day monday_of(Day day) {
    constexpr int64_t days_of_week = 7;
    constexpr int64_t a_monday = -3; // 1970-01-01 was a Thursday
    return a_monday + days_of_week * floor_divided(day - a_monday, days_of_week);
}

Day day_at(std::chrono::seconds unix_time) {
    return floor_divided(unix_time.count(), std::chrono::seconds(std::chrono::hours{24}).count());
}

} // namespace rate_limit
