// What stands in the fields of an HTTP request, for keys. Blanks and tabs around a value are no
// part of it (RFC 9110, 5.5): nginx leaves some of them, and upstreams cut them.
#pragma once

#include <optional>
#include <string_view>

namespace rate_limit {

/// The variables of requests that take a credential from a field. The second name has the name of
/// the field behind it.
inline constexpr std::string_view bearer_variable = "redis_rate_limit_bearer";
inline constexpr std::string_view field_variable_prefix = "redis_rate_limit_field_";

/// Whether a variable of this name is one of these.
constexpr bool is_field_variable(std::string_view variable) {
    return variable == bearer_variable || variable.starts_with(field_variable_prefix);
}

/// Whether the text begins or ends with a blank or tab. Each request asks this of each key.
constexpr bool has_outer_blanks(std::string_view text) {
    constexpr auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
    return !text.empty() && (is_blank(text.front()) || is_blank(text.back()));
}

/// Returns the text without the blanks and tabs at both of its ends. An end that consists of
/// `address`, the client's address in bytes, stays whole, because its bytes are no blanks: a `map`
/// may give `$binary_remote_addr`.
std::string_view without_outer_blanks(std::string_view text, std::string_view address = {});

/// Returns the token in the value of an Authorization field: the scheme `Bearer`, in any case,
/// blanks or tabs, and one token68 (RFC 9110, 11.2 and 11.4). Returns nothing for any other value.
std::optional<std::string_view> bearer_token(std::string_view authorization);

/// Whether a field has this name of a variable, which is in lower case and has `_` for each `-`, as
/// behind nginx's `$http_`.
bool is_field_named(std::string_view field, std::string_view variable);

} // namespace rate_limit
