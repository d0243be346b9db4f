// Names of variables that a configuration or a module defines.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/util.hpp"

#include <algorithm>
#include <span>
#include <string_view>

namespace nginx_module {

/// Whether a directive or a module has defined a variable of exactly this name, in lower case, so
/// far.
inline bool is_variable_defined(const ngx_conf_t *cf, std::string_view name) {
    const auto &core = *static_cast<const ngx_http_core_main_conf_t *>(
        ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module));
    const ngx_array_t &defined = core.variables_keys->keys;
    return std::ranges::any_of(
        std::span(static_cast<const ngx_hash_key_t *>(defined.elts), defined.nelts),
        [name](const ngx_hash_key_t &variable) { return view(variable.key) == name; });
}

} // namespace nginx_module
