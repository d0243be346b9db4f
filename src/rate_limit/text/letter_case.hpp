// The case of letters in texts that ignore it, such as the names of nginx's variables.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace rate_limit {

/// Letters beyond A to Z stay as they are.
constexpr char in_lower_case(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

inline std::string in_lower_case(std::string_view text) {
    std::string lower(text);
    std::ranges::transform(lower, lower.begin(), [](char c) { return in_lower_case(c); });
    return lower;
}

} // namespace rate_limit
