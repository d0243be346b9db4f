#include "rate_limit/text/times_and_numbers.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace rate_limit {

std::optional<uint64_t> parse_whole_number(std::string_view text, uint64_t largest) {
    uint64_t number = 0;
    const char *end = text.data() + text.size();
    const auto [stopped_at, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{} || stopped_at != end || number > largest) {
        return std::nullopt;
    }
    return number;
}

std::optional<uint64_t> parse_saturated_number(std::string_view text, uint64_t largest) {
    if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) {
        return std::nullopt;
    }
    return parse_whole_number(text, largest).value_or(largest);
}

namespace {

/// A unit of time, and its length in milliseconds.
struct TimeUnit {
    std::string_view name;
    int64_t length;
};

/// In the order in which they may follow each other. A space stands for seconds, too, and is the
/// last.
constexpr TimeUnit time_units[] = {
    {"w", 604'800'000}, {"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000},
    {"s", 1000},        {"ms", 1},         {" ", 1000},
};
constexpr size_t seconds_at = 4;
constexpr size_t space_at = 6;

/// Takes the unit that the text begins with. Returns its index, or nothing if there is none.
std::optional<size_t> take_time_unit(std::string_view &text) {
    const bool is_ms = text.starts_with("ms");
    for (size_t i = 0; i < std::size(time_units); ++i) {
        const std::string_view name = time_units[i].name;
        if (text.starts_with(name) && !(is_ms && name == "m")) {
            text.remove_prefix(name.size());
            return i;
        }
    }
    return std::nullopt;
}

} // namespace

std::chrono::milliseconds parse_time(std::string_view text) {
    constexpr std::chrono::milliseconds none{-1};
    int64_t total = 0;
    int64_t value = 0;
    bool has_digits = false;
    size_t next_unit = 0; // the longest that may still come
    while (!text.empty()) {
        if (text.front() >= '0' && text.front() <= '9') {
            const auto [end, error] =
                std::from_chars(text.data(), text.data() + text.size(), value);
            if (error != std::errc{}) {
                return none;
            }
            text.remove_prefix(static_cast<size_t>(end - text.data()));
            has_digits = true;
            continue;
        }
        const auto unit = take_time_unit(text);
        if (!unit || *unit < next_unit || (*unit == space_at && next_unit > seconds_at)) {
            return none;
        }
        next_unit = *unit + 1;
        if (__builtin_mul_overflow(value, time_units[*unit].length, &value) ||
            __builtin_add_overflow(total, value, &total)) {
            return none;
        }
        value = 0;
        text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    }
    if (!has_digits || __builtin_mul_overflow(value, int64_t{1000}, &value) ||
        __builtin_add_overflow(total, value, &total)) {
        return none;
    }
    return std::chrono::milliseconds(total);
}

std::optional<size_t> parse_size(std::string_view text) {
    const char unit = text.empty() ? ' ' : text.back();
    const size_t scale = unit == 'k' || unit == 'K'   ? 1024
                         : unit == 'm' || unit == 'M' ? size_t{1024} * 1024
                                                      : 1;
    const auto number =
        parse_whole_number(text.substr(0, text.size() - (scale > 1 ? 1 : 0)), INT64_MAX / scale);
    return number ? std::optional<size_t>(*number * scale) : std::nullopt;
}

} // namespace rate_limit
