// The variables that tell what was decided, for http and stream: their names and values. How
// nginx learns of them is theirs.
#pragma once

#include "nginx_module/ngx.hpp"

#include "limiter/limited_request.hpp"
#include "nginx_module/util.hpp"
#include "rate_limit/text/client_network.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

namespace nginx_module {

/// What a request or session knows of its rules.
struct Decided {
    const limiter::LimitedRequest &limits;
    bool was_delayed;
};

/// Sets the value, whose text the pool may hold. Returns NGX_ERROR if memory ran out.
using DecisionGetter = ngx_int_t (*)(ngx_pool_t *pool, ngx_variable_value_t &value,
                                     const Decided &decided);

struct DecisionVariable {
    std::string_view name;
    DecisionGetter get;
};
std::span<const DecisionVariable> decision_variables();

/// Sets the client's address, cut to so many bits if it is one of IPv6.
ngx_int_t set_network(const ngx_connection_t &client, ngx_pool_t *pool, ngx_variable_value_t &value,
                      unsigned bits);

/// Whether a directive or a module has defined a variable of exactly this name, in lower case, so
/// far. `variables` are nginx's keys of all.
inline bool is_defined(const ngx_array_t &variables, std::string_view name) {
    return std::ranges::any_of(
        std::span(static_cast<const ngx_hash_key_t *>(variables.elts), variables.nelts),
        [name](const ngx_hash_key_t &variable) { return view(variable.key) == name; });
}

/// Returns a variable that the configuration uses, and that has the prefix of our networks but no
/// number of bits, nor a definition; nothing if there is none. nginx itself would take it.
template <typename Variable>
std::optional<ngx_str_t> wrong_network_variable(const ngx_array_t &used,
                                                const ngx_array_t &defined) {
    for (const Variable &variable :
         std::span(static_cast<const Variable *>(used.elts), used.nelts)) {
        const std::string_view name = view(variable.name);
        if (name.starts_with(rate_limit::network_variable_prefix) &&
            !rate_limit::network_bits_of(name) && !is_defined(defined, name)) {
            return variable.name;
        }
    }
    return std::nullopt;
}

/// Logs that nginx -t refuses the variable.
void log_wrong_network_variable(ngx_conf_t *cf, ngx_str_t name);

} // namespace nginx_module
