#include "replay/log/log_time.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>

namespace replay {

namespace {

constexpr int64_t second = 1'000'000;

// The scripts count whole microseconds to 2^53, which is in 2255, and add windows to the time.
constexpr int64_t latest_us = 7'258'118'400 * second; // 2200

/// Reads the number that stands at a place of the text, of digits only.
std::optional<int> number_at(std::string_view text, size_t at, size_t size) {
    int number = 0;
    for (const char c : text.substr(at, size)) {
        if (c < '0' || c > '9') {
            return std::nullopt;
        }
        number = number * 10 + (c - '0');
    }
    return number;
}

/// Whether the text has the characters of the layout, but for digits in the place of `0`, letters
/// in the place of `a`, and a sign in the place of `+`. What stands there is looked at later.
bool has_layout(std::string_view text, std::string_view layout) {
    return text.size() == layout.size() &&
           std::ranges::equal(text, layout, [](char c, char of_layout) {
               return of_layout == '0' || of_layout == 'a' || c == of_layout ||
                      (of_layout == '+' && c == '-');
           });
}

struct Calendar {
    std::optional<int> year, month, day, hour, minute, second, zone_hours, zone_minutes;
    bool zone_is_west = false;
};

std::optional<int64_t> unix_time_of(const Calendar &at) {
    if (!at.year || !at.month || !at.day || !at.hour || !at.minute || !at.second ||
        !at.zone_hours || !at.zone_minutes) {
        return std::nullopt;
    }
    const std::chrono::year_month_day day(std::chrono::year(*at.year),
                                          std::chrono::month(static_cast<unsigned>(*at.month)),
                                          std::chrono::day(static_cast<unsigned>(*at.day)));
    if (!day.ok() || *at.hour > 23 || *at.minute > 59 || *at.second > 60) {
        return std::nullopt;
    }
    const int64_t zone = (int64_t{*at.zone_hours} * 60 + *at.zone_minutes) * 60;
    const int64_t days = std::chrono::sys_days(day).time_since_epoch().count();
    const int64_t seconds = ((days * 24 + *at.hour) * 60 + *at.minute) * 60 + *at.second;
    return (at.zone_is_west ? seconds + zone : seconds - zone) * second;
}

} // namespace

std::optional<int64_t> read_seconds(std::string_view text) {
    constexpr size_t most_decimals = 6;
    const size_t point = text.find('.');
    const std::string_view whole = text.substr(0, point);
    std::string_view decimals =
        point == std::string_view::npos ? std::string_view() : text.substr(point + 1);
    int64_t seconds = 0;
    const auto [end, error] = std::from_chars(whole.data(), whole.data() + whole.size(), seconds);
    if (error != std::errc{} || end != whole.data() + whole.size() || seconds < 0 ||
        seconds > INT64_MAX / second / 2 || decimals.size() > most_decimals) {
        return std::nullopt;
    }
    const auto fraction = number_at(decimals, 0, decimals.size());
    if (!fraction) {
        return std::nullopt;
    }
    int64_t micros = *fraction;
    for (size_t i = decimals.size(); i < most_decimals; ++i) {
        micros *= 10;
    }
    return seconds * second + micros;
}

std::optional<int64_t> read_time_local(std::string_view text) {
    constexpr std::string_view months = "JanFebMarAprMayJunJulAugSepOctNovDec";
    if (!has_layout(text, "00/aaa/0000:00:00:00 +0000")) {
        return std::nullopt;
    }
    const size_t month = months.find(text.substr(3, 3));
    if (month == std::string_view::npos || month % 3 != 0) {
        return std::nullopt;
    }
    return unix_time_of({.year = number_at(text, 7, 4),
                         .month = static_cast<int>(month / 3) + 1,
                         .day = number_at(text, 0, 2),
                         .hour = number_at(text, 12, 2),
                         .minute = number_at(text, 15, 2),
                         .second = number_at(text, 18, 2),
                         .zone_hours = number_at(text, 22, 2),
                         .zone_minutes = number_at(text, 24, 2),
                         .zone_is_west = text[21] == '-'});
}

std::optional<int64_t> read_time_iso8601(std::string_view text) {
    if (!has_layout(text, "0000-00-00T00:00:00+00:00")) {
        return std::nullopt;
    }
    return unix_time_of({.year = number_at(text, 0, 4),
                         .month = number_at(text, 5, 2),
                         .day = number_at(text, 8, 2),
                         .hour = number_at(text, 11, 2),
                         .minute = number_at(text, 14, 2),
                         .second = number_at(text, 17, 2),
                         .zone_hours = number_at(text, 20, 2),
                         .zone_minutes = number_at(text, 23, 2),
                         .zone_is_west = text[19] == '-'});
}

LogTime::LogTime(const LogFormat &format)
    : decided_(format.field_of("redis_rate_limit_decided")),
      request_time_(format.field_of("request_time")) {
    constexpr std::pair<std::string_view, Clock> clocks[] = {
        {"msec", Clock::msec}, {"time_iso8601", Clock::iso8601}, {"time_local", Clock::local}};
    for (const auto &[variable, clock] : clocks) {
        const auto field = format.field_of(variable);
        if (field && clock_ == Clock::none) {
            clock_ = clock;
            clock_field_ = *field;
        }
    }
}

std::optional<LogTime::Time> LogTime::of(const Request &request, std::string &buffer) {
    const auto time = read(request, buffer);
    return time && time->decided_us >= 0 && time->ended_us <= latest_us ? time : std::nullopt;
}

bool LogTime::is_undecided(const Request &request, std::string &buffer) const {
    return decided_ && request.is_empty(*decided_, buffer);
}

std::optional<int64_t> LogTime::read_clock(const Request &request, std::string &buffer) {
    if (clock_ == Clock::none) {
        return std::nullopt;
    }
    const std::string_view text = request.value(clock_field_, buffer);
    return clock_ == Clock::msec ? read_seconds(text) : read_calendar(text);
}

std::optional<int64_t> LogTime::read_calendar(std::string_view text) {
    if (text != last_text_) {
        last_text_ = text;
        last_time_ = clock_ == Clock::local ? read_time_local(text) : read_time_iso8601(text);
    }
    return last_time_;
}

std::optional<LogTime::Time> LogTime::read(const Request &request, std::string &buffer) {
    int64_t duration = 0;
    if (request_time_) {
        const auto logged = read_seconds(request.value(*request_time_, buffer));
        if (!logged) {
            return std::nullopt;
        }
        duration = *logged;
    }
    if (decided_ && !is_undecided(request, buffer)) {
        const auto decided = read_seconds(request.value(*decided_, buffer));
        if (!decided) {
            return std::nullopt;
        }
        // $request_time begins before the decision, so $msec tells the end better.
        const auto ended = clock_ == Clock::msec ? read_clock(request, buffer) : std::nullopt;
        return Time{.decided_us = *decided,
                    .ended_us = std::max(*decided, ended.value_or(*decided + duration))};
    }
    const auto ended = read_clock(request, buffer);
    if (!ended) {
        return std::nullopt;
    }
    return Time{.decided_us = *ended - duration, .ended_us = *ended, .is_estimate = true};
}

} // namespace replay
