// Reads directives that consist of named parameters, by a table with a setter for each of them.
// Also writes the error messages for mistakes in directives.
#pragma once

#include "../ngx.hpp"

#include "../util.hpp"

#include <algorithm>
#include <bitset>
#include <chrono>
#include <span>
#include <string>
#include <string_view>

namespace nginx_module {

/// Stores a value in the draft and returns null. If the value is refused, returns what was expected
/// instead, or `already_logged` if the log says it already.
template <typename Draft>
using ParameterSetter = const char *(*)(ngx_conf_t *cf, Draft &draft, std::string_view value);

inline constexpr const char *already_logged = "";
inline constexpr const char *expected_name = "1 to 64 of A-Za-z0-9._/-";

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

/// Writes the error message of nginx -t: `redis_rate_limit: invalid limit "x", expected ...`.
/// Returns NGX_CONF_ERROR.
inline char *refuse(ngx_conf_t *cf, const char *directive, std::string_view what,
                    std::string_view value, const char *expected) {
    ngx_str_t shown_what = to_ngx(what);
    ngx_str_t shown_value = to_ngx(value);
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%s: invalid %V \"%V\", expected %s", directive,
                       &shown_what, &shown_value, expected);
    return static_cast<char *>(NGX_CONF_ERROR);
}

inline char *refuse_missing(ngx_conf_t *cf, const char *directive, std::string_view parameter) {
    ngx_str_t missing = to_ngx(parameter);
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%s: missing \"%V=\"", directive, &missing);
    return static_cast<char *>(NGX_CONF_ERROR);
}

/// Returns the words of the directive that is being read; the first one is its name. nginx has
/// ended each of them with a null byte.
inline std::span<const ngx_str_t> words_of(const ngx_conf_t *cf) {
    return {static_cast<const ngx_str_t *>(cf->args->elts), cf->args->nelts};
}

/// Compiles a text with variables. Returns false if it is refused; the log says why.
inline bool compile_value(ngx_conf_t *cf, ngx_str_t text, ngx_http_complex_value_t &value) {
    ngx_http_compile_complex_value_t compile{};
    compile.cf = cf;
    compile.value = &text;
    compile.complex_value = &value;
    return ngx_http_compile_complex_value(&compile) == NGX_OK;
}

/// Reads a time as nginx writes it. It is negative if the text is none.
inline std::chrono::milliseconds parse_time(std::string_view text) {
    ngx_str_t time = to_ngx(text);
    return std::chrono::milliseconds(ngx_parse_time(&time, 0));
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
char *refuse_unknown_parameter(ngx_conf_t *cf, const char *directive,
                               std::span<const Parameter<Draft>> table, std::string_view name) {
    std::string known;
    for (const Parameter<Draft> &parameter : table) {
        known += known.empty() ? "one of " : ", ";
        known += parameter.name;
    }
    return refuse(cf, directive, "parameter", name, known.c_str());
}

/// Sets one of the table's parameters. Refuses a second value, unless the parameter is `repeated`.
template <typename Draft>
char *set_parameter(ngx_conf_t *cf, const char *directive, std::span<const Parameter<Draft>> table,
                    GivenParameters &given, Draft &draft, const Parameter<Draft> &parameter,
                    std::string_view value) {
    const auto index = static_cast<size_t>(&parameter - table.data());
    const bool is_doubled = given.test(index) && parameter.is != Is::repeated;
    const char *expected = is_doubled ? "it only once" : parameter.set(cf, draft, value);
    given.set(index);
    if (expected == nullptr) {
        return NGX_CONF_OK;
    }
    if (expected == already_logged) {
        return static_cast<char *>(NGX_CONF_ERROR);
    }
    if (parameter.is == Is::flag) {
        return refuse(cf, directive, "parameter", parameter.name, expected);
    }
    return refuse(cf, directive, parameter.name, parameter.is == Is::secret ? "***" : value,
                  expected);
}

/// Reads words of the form `name=value`, and flags; refuses unknown, doubled and missing ones.
template <typename Draft>
char *set_parameters(ngx_conf_t *cf, const char *directive, std::span<const Parameter<Draft>> table,
                     std::span<const ngx_str_t> words, Draft &draft) {
    GivenParameters given;
    for (const ngx_str_t &word : words) {
        const std::string_view text = view(word);
        const size_t equals = text.find('=');
        const bool has_value = equals != std::string_view::npos;
        const Parameter<Draft> *parameter = find_parameter(table, text.substr(0, equals));
        if (parameter == nullptr) {
            return refuse_unknown_parameter(cf, directive, table, text.substr(0, equals));
        }
        if (has_value == (parameter->is == Is::flag)) {
            return refuse(cf, directive, "parameter", text, has_value ? "no value" : "name=value");
        }
        char *result = set_parameter(cf, directive, table, given, draft, *parameter,
                                     has_value ? text.substr(equals + 1) : std::string_view());
        if (result != NGX_CONF_OK) {
            return result;
        }
    }
    for (size_t i = 0; i < table.size(); ++i) {
        if (table[i].is == Is::required && !given.test(i)) {
            return refuse_missing(cf, directive, table[i].name);
        }
    }
    return NGX_CONF_OK;
}

} // namespace nginx_module
