#include "rule.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace rate_limit {

namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::array<std::pair<Algorithm, std::string_view>, 5> names = {{
    {Algorithm::fixed_window, "fixed_window"},
    {Algorithm::sliding_log, "sliding_log"},
    {Algorithm::sliding_window, "sliding_window"},
    {Algorithm::token_bucket, "token_bucket"},
    {Algorithm::gcra, "gcra"},
}};

} // namespace

std::optional<Algorithm> algorithm_named(std::string_view name) {
    for (const auto &[algorithm, its_name] : names) {
        if (its_name == name) {
            return algorithm;
        }
    }
    return std::nullopt;
}

std::string_view to_string(Algorithm algorithm) {
    for (const auto &[one, name] : names) {
        if (one == algorithm) {
            return name;
        }
    }
    return {};
}

uint64_t largest_limit(Algorithm algorithm) {
    return algorithm == Algorithm::sliding_log ? 1'000'000 : largest_number;
}

bool is_bucket(Algorithm algorithm) {
    return algorithm == Algorithm::token_bucket || algorithm == Algorithm::gcra;
}

bool is_name(std::string_view text) {
    const auto allowed = [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
               c == '.' || c == '_' || c == '/' || c == '-';
    };
    return !text.empty() && text.size() <= longest_name && std::ranges::all_of(text, allowed);
}

std::string Rule::name() const {
    if (!explicit_name.empty()) {
        return explicit_name;
    }
    const int64_t ms = window.count();
    return zone + "/" +
           (ms % 1000 == 0 ? std::to_string(ms / 1000) + "s" : std::to_string(ms) + "ms");
}

uint64_t Rule::capacity() const {
    switch (algorithm) {
    case Algorithm::fixed_window:
    case Algorithm::sliding_log:
    case Algorithm::sliding_window:
        return limit;
    case Algorithm::token_bucket:
        return limit == 0 ? 0 : burst.value_or(limit);
    case Algorithm::gcra:
        return limit == 0 ? 0 : burst.value_or(0) + 1;
    }
    return 0;
}

std::chrono::microseconds Rule::refill() const {
    const std::chrono::microseconds whole_window = window;
    if (!is_bucket(algorithm) || limit == 0) {
        return whole_window;
    }
    const Wide product = Wide{capacity()} * static_cast<uint64_t>(whole_window.count());
    const Wide longest = std::chrono::microseconds::max().count();
    return std::chrono::microseconds(
        static_cast<int64_t>(std::min<Wide>((product + limit - 1) / limit, longest)));
}

bool Rule::same_counter(const Rule &other) const {
    return zone == other.zone && algorithm == other.algorithm && window == other.window &&
           explicit_name == other.explicit_name;
}

Interval::Interval(const Rule &rule) {
    const auto window = static_cast<uint64_t>(std::chrono::microseconds(rule.window).count());
    const uint64_t limit = std::max<uint64_t>(rule.limit, 1);
    const uint64_t common = std::gcd(window, limit);
    length = window / common;
    parts = limit / common;
}

} // namespace rate_limit
