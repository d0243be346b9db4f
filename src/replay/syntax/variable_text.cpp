#include "replay/syntax/variable_text.hpp"

#include "replay/log/request_uri.hpp"

#include <algorithm>

namespace replay {

namespace {

bool is_of_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// Takes the name behind a `$`. It is empty if there is none.
std::string_view take_name(std::string_view &text) {
    const bool has_braces = text.starts_with('{');
    std::string_view rest = text.substr(has_braces ? 1 : 0);
    const auto *const end = std::ranges::find_if_not(rest, is_of_name);
    const auto size = static_cast<size_t>(end - rest.begin());
    const std::string_view name = rest.substr(0, size);
    rest.remove_prefix(size);
    if (has_braces) {
        if (!rest.starts_with('}')) {
            return {};
        }
        rest.remove_prefix(1);
    }
    text = rest;
    return name;
}

} // namespace

std::string in_small_letters(std::string_view text) {
    std::string small(text);
    std::ranges::transform(small, small.begin(), small_letter);
    return small;
}

std::variant<std::vector<TextPart>, Error> split_at_variables(std::string_view text) {
    std::vector<TextPart> parts;
    const std::string_view whole = text;
    while (!text.empty()) {
        const size_t literal = std::min(text.find('$'), text.size());
        if (literal > 0) {
            parts.push_back({.text = std::string(text.substr(0, literal))});
            text.remove_prefix(literal);
            continue;
        }
        text.remove_prefix(1);
        const std::string_view name = take_name(text);
        if (name.empty()) {
            return "invalid variable name in \"" + std::string(whole) + "\"";
        }
        parts.push_back({.text = in_small_letters(name), .is_variable = true});
    }
    return parts;
}

} // namespace replay
