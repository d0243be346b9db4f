#include "rule.hpp"

#include <algorithm>

namespace rate_limit {

std::optional<Algorithm> algorithm_named(std::string_view name) {
    if (name == "sliding_log") {
        return Algorithm::sliding_log;
    }
    return std::nullopt;
}

std::string_view to_string(Algorithm algorithm) {
    switch (algorithm) {
    case Algorithm::sliding_log:
        return "sliding_log";
    }
    return {};
}

uint64_t largest_limit(Algorithm algorithm) {
    switch (algorithm) {
    case Algorithm::sliding_log:
        return 1'000'000;
    }
    return 0;
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

bool Rule::same_counter(const Rule &other) const {
    return zone == other.zone && algorithm == other.algorithm && window == other.window &&
           explicit_name == other.explicit_name;
}

} // namespace rate_limit
