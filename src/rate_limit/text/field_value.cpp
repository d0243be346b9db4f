#include "rate_limit/text/field_value.hpp"

#include "rate_limit/text/letter_case.hpp"

#include <algorithm>

namespace rate_limit {

namespace {

constexpr std::string_view blanks = " \t";

bool is_of_token68(char c) {
    const char lower = in_lower_case(c);
    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') ||
           std::string_view("-._~+/").find(c) != std::string_view::npos;
}

bool is_token68(std::string_view text) {
    const auto *const padding = std::ranges::find_if_not(text, is_of_token68);
    return padding != text.begin() &&
           std::all_of(padding, text.end(), [](char c) { return c == '='; });
}

} // namespace

std::string_view without_outer_blanks(std::string_view text, std::string_view address) {
    const size_t head = text.starts_with(address) ? address.size() : 0;
    const size_t tail = text.ends_with(address) ? address.size() : 0;
    const size_t first = std::min(text.find_first_not_of(blanks), text.size() - tail);
    const size_t end = std::max(text.find_last_not_of(blanks) + 1, head); // 0: blanks alone
    const size_t kept_first = head > 0 ? 0 : first;
    const size_t kept_end = tail > 0 ? text.size() : end;
    return kept_first < kept_end ? text.substr(kept_first, kept_end - kept_first)
                                 : std::string_view();
}

std::optional<std::string_view> bearer_token(std::string_view authorization) {
    constexpr std::string_view scheme = "bearer";
    const std::string_view value = without_outer_blanks(authorization);
    const std::string_view its_scheme = value.substr(0, value.find_first_of(blanks));
    const std::string_view token = without_outer_blanks(value.substr(its_scheme.size()));
    const bool is_bearer = in_lower_case(its_scheme) == scheme;
    return is_bearer && is_token68(token) ? std::optional(token) : std::nullopt;
}

bool is_field_named(std::string_view field, std::string_view variable) {
    return std::ranges::equal(field, variable, {},
                              [](char c) { return c == '-' ? '_' : in_lower_case(c); });
}

} // namespace rate_limit
