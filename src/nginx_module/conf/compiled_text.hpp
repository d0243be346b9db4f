// Texts with variables, as http and stream compile and evaluate them: each by functions and types
// of its own, which have the same shape.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/util.hpp"
#include "rate_limit/text/letter_case.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace nginx_module {

/// Does what Context::compile has to. `Value` is nginx's compiled text, and `Arguments` are what
/// its function `compile` takes.
template <typename Value, typename Arguments, auto compile>
const void *compile_text(ngx_conf_t *cf, ngx_str_t text) {
    auto *value = static_cast<Value *>(ngx_pcalloc(cf->pool, sizeof(Value)));
    Arguments arguments{};
    arguments.cf = cf;
    arguments.value = &text;
    arguments.complex_value = value;
    return value != nullptr && compile(&arguments) == NGX_OK ? value : nullptr;
}

/// Returns the text for a request or session, or nothing if memory ran out. nginx's function
/// `evaluate` only reads what is compiled.
template <typename Value, auto evaluate, typename Subject>
std::optional<std::string_view> evaluate_text(Subject *subject, const void *compiled) {
    ngx_str_t text;
    if (evaluate(subject, static_cast<Value *>(const_cast<void *>(compiled)), &text) != NGX_OK) {
        return std::nullopt;
    }
    return view(text);
}

/// Whether a directive or a module has defined a variable of exactly this name, in lower case, so
/// far. `variables` are nginx's keys of all.
inline bool is_defined(const ngx_array_t &variables, std::string_view name) {
    return std::ranges::any_of(
        std::span(static_cast<const ngx_hash_key_t *>(variables.elts), variables.nelts),
        [name](const ngx_hash_key_t &variable) { return view(variable.key) == name; });
}

/// Does what Context::is_variable has to. `core` is the configuration of the main level that has
/// the variables, which are of the type Variable.
template <typename Variable, typename CoreConf>
bool has_variable(const CoreConf &core, std::string_view name) {
    const std::string lower = rate_limit::in_lower_case(name);
    const std::span prefixes(static_cast<const Variable *>(core.prefix_variables.elts),
                             core.prefix_variables.nelts);
    return is_defined(core.variables_keys->keys, lower) ||
           std::ranges::any_of(prefixes, [&](const Variable &prefix) {
               return lower.starts_with(view(prefix.name)) && lower.size() > prefix.name.len;
           });
}

} // namespace nginx_module
