// Texts with variables, as http and stream compile and evaluate them: each by functions and types
// of its own, which have the same shape.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/util.hpp"

#include <optional>
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

} // namespace nginx_module
