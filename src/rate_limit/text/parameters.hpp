// Reads directives that consist of named parameters, by a table with a setter for each of them.
// nginx and the replay read the same tables. A refusal is the text behind the directive's name:
// `invalid limit "x", expected a whole number from 0 to 1000000000`.
#pragma once

#include <algorithm>
#include <bitset>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rate_limit {

/// Why a directive is refused. Nothing: it is not.
using Refusal = std::optional<std::string>;

/// Of a directive about which the log says already why it is refused.
inline const std::string already_told;

/// Stores a value in the draft and returns null. If the value is refused, returns what was expected
/// instead, or `already_logged` if the log says it already.
template <typename Draft>
using ParameterSetter = const char *(*)(Draft &draft, std::string_view value);

/// The mark is known by its address: an array of its own shares that with no other empty text.
inline constexpr char already_logged[] = "";
inline constexpr const char *expected_name = "1 to 64 of A-Za-z0-9._/-";
inline constexpr const char *expected_number = "a whole number from 0 to 1000000000";

enum class Is {
    optional,
    required,
    secret,   // optional; its value is never shown
    flag,     // optional; it has no value
    repeated, // optional; it may be given several times
};

template <typename Draft>
struct Parameter {
    std::string_view name;
    ParameterSetter<Draft> set;
    Is is = Is::optional;
};

inline constexpr size_t most_parameters = 32;

inline Refusal refused(std::string_view what, std::string_view value, std::string_view expected) {
    std::string text = "invalid ";
    text.append(what).append(" \"").append(value).append("\", expected ").append(expected);
    return text;
}

inline Refusal refused_missing(std::string_view parameter) {
    return "missing \"" + std::string(parameter) + "=\"";
}

/// The parameters of a table that were given, by their index.
using GivenParameters = std::bitset<most_parameters>;

/// Returns the table's parameter of that name, or null if there is none.
template <typename Draft>
const Parameter<Draft> *find_parameter(std::span<const Parameter<Draft>> table,
                                       std::string_view name) {
    const auto found = std::ranges::find(table, name, &Parameter<Draft>::name);
    return found != table.end() ? &*found : nullptr;
}

/// Refuses a parameter that the table does not have. The message does not show its value, which may
/// be a password.
template <typename Draft>
Refusal refused_unknown(std::span<const Parameter<Draft>> table, std::string_view name) {
    std::string known;
    for (const Parameter<Draft> &parameter : table) {
        known += known.empty() ? "one of " : ", ";
        known += parameter.name;
    }
    return refused("parameter", name, known);
}

/// Sets one of the table's parameters. Refuses a second value, unless the parameter is `repeated`.
template <typename Draft>
Refusal set_parameter(std::span<const Parameter<Draft>> table, GivenParameters &given, Draft &draft,
                      const Parameter<Draft> &parameter, std::string_view value) {
    const auto index = static_cast<size_t>(&parameter - table.data());
    const bool is_doubled = given.test(index) && parameter.is != Is::repeated;
    const char *expected = is_doubled ? "it only once" : parameter.set(draft, value);
    given.set(index);
    if (expected == nullptr) {
        return std::nullopt;
    }
    if (expected == already_logged) {
        return already_told;
    }
    if (parameter.is == Is::flag) {
        return refused("parameter", parameter.name, expected);
    }
    return refused(parameter.name, parameter.is == Is::secret ? "***" : value, expected);
}

/// Reads words of the form `name=value`, and flags; refuses unknown, doubled and missing ones.
template <typename Draft>
Refusal set_parameters(std::span<const Parameter<Draft>> table,
                       std::span<const std::string_view> words, Draft &draft) {
    GivenParameters given;
    for (const std::string_view word : words) {
        const size_t equals = word.find('=');
        const bool has_value = equals != std::string_view::npos;
        const Parameter<Draft> *parameter = find_parameter(table, word.substr(0, equals));
        if (parameter == nullptr) {
            return refused_unknown(table, word.substr(0, equals));
        }
        if (has_value == (parameter->is == Is::flag)) {
            return refused("parameter", word, has_value ? "no value" : "name=value");
        }
        Refusal refusal = set_parameter(table, given, draft, *parameter,
                                        has_value ? word.substr(equals + 1) : std::string_view());
        if (refusal) {
            return refusal;
        }
    }
    for (size_t i = 0; i < table.size(); ++i) {
        if (table[i].is == Is::required && !given.test(i)) {
            return refused_missing(table[i].name);
        }
    }
    return std::nullopt;
}

} // namespace rate_limit
