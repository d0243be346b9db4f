// The variables that tell what was decided, for http and stream: their names and values. How
// nginx learns of them is theirs.
#pragma once

#include "nginx_module/ngx.hpp"

#include "limiter/limited_request.hpp"
#include "nginx_module/conf/compiled_text.hpp"
#include "nginx_module/decisions/variable_value.hpp"
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

/// Logs that nginx -t refuses the variable.
void log_wrong_network_variable(ngx_conf_t *cf, ngx_str_t name);

/// The functions that define and give the variables, and that check the names of those that the
/// configuration uses. `Glue` says how http or stream does what both do:
///
///     Subject, Variable, CoreConf   their types of a request or session, and of the others
///     add                           their function that defines a variable
///     may_change, is_prefix         its flags: a value is not to be kept, a name is a prefix
///     pool(Subject &)               of a request or session
///     decided(Subject &)            nothing if no rule has applied
///     core(ngx_conf_t *)            the CoreConf of the main level
template <typename Glue>
struct Variables {
    using Subject = typename Glue::Subject;
    using Value = ngx_variable_value_t;

    static ngx_int_t get_decision(Subject *subject, Value *value, uintptr_t index) noexcept {
        const std::optional<Decided> decided = Glue::decided(*subject);
        return decided ? decision_variables()[index].get(Glue::pool(*subject), *value, *decided)
                       : set_not_found(*value);
    }

    /// `name` is the variable's whole name. SSI may ask for a name that no configuration has, which
    /// has no value if it is none of ours.
    static ngx_int_t get_network(Subject *subject, Value *value, uintptr_t name) noexcept {
        // NOLINTNEXTLINE(performance-no-int-to-ptr): nginx stores a pointer there
        const ngx_str_t &text = *reinterpret_cast<const ngx_str_t *>(name);
        const auto bits = rate_limit::network_bits_of(view(text));
        return bits ? get_usual_network(subject, value, *bits) : set_not_found(*value);
    }

    static ngx_int_t get_usual_network(Subject *subject, Value *value, uintptr_t bits) noexcept {
        return set_network(*subject->connection, Glue::pool(*subject), *value,
                           static_cast<unsigned>(bits));
    }

    using Get = ngx_int_t (*)(Subject *subject, Value *value, uintptr_t data) noexcept;

    static bool add(ngx_conf_t *cf, std::string_view name, Get get, uintptr_t data,
                    ngx_uint_t flags = 0) {
        ngx_str_t its_name = to_ngx(name);
        typename Glue::Variable *variable = Glue::add(cf, &its_name, flags | Glue::may_change);
        if (variable == nullptr) {
            return false;
        }
        variable->get_handler = get;
        variable->data = data;
        return true;
    }

    /// Returns NGX_OK or NGX_ERROR.
    static ngx_int_t define_all(ngx_conf_t *cf) noexcept {
        const auto decisions = decision_variables();
        for (size_t i = 0; i < decisions.size(); ++i) {
            if (!add(cf, decisions[i].name, get_decision, i)) {
                return NGX_ERROR;
            }
        }
        const auto usual_bits = rate_limit::network_bits_of(rate_limit::network_variable);
        // nginx gives a variable with a prefix its name in the place of `data`.
        const bool is_good =
            add(cf, rate_limit::network_variable_prefix, get_network, 0, Glue::is_prefix) &&
            add(cf, rate_limit::network_variable, get_usual_network, usual_bits.value_or(0));
        return is_good ? NGX_OK : NGX_ERROR;
    }

    /// Returns the first variable that the configuration uses, that is defined by its prefix at
    /// most, and whose name fits. Returns null if there is none. Called when all directives have
    /// been read.
    template <typename Fits>
    static const typename Glue::Variable *find_used(ngx_conf_t *cf, Fits fits) {
        const typename Glue::CoreConf &core = Glue::core(cf);
        const std::span used(static_cast<const typename Glue::Variable *>(core.variables.elts),
                             core.variables.nelts);
        const auto found = std::ranges::find_if(used, [&](const auto &variable) {
            const std::string_view name = view(variable.name);
            return fits(name) && !is_defined(core.variables_keys->keys, name);
        });
        return found != used.end() ? &*found : nullptr;
    }

    /// Refuses a `$redis_rate_limit_addr_...` with a wrong number of bits, which nginx takes for
    /// ours as it takes any `$arg_...`. Called when all directives have been read. Returns false if
    /// there is one; the log says so.
    static bool check_used(ngx_conf_t *cf) {
        const auto *wrong = find_used(cf, [](std::string_view name) {
            return name.starts_with(rate_limit::network_variable_prefix) &&
                   !rate_limit::network_bits_of(name);
        });
        if (wrong != nullptr) {
            log_wrong_network_variable(cf, wrong->name);
        }
        return wrong == nullptr;
    }
};

} // namespace nginx_module
