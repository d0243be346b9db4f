#include "nginx_module/stream/variables.hpp"

#include "nginx_module/decisions/variable_value.hpp"
#include "nginx_module/decisions/variables.hpp"
#include "nginx_module/stream/session_state.hpp"

namespace nginx_module::stream {

namespace {

using Value = ngx_stream_variable_value_t;

ngx_int_t get_decision(ngx_stream_session_t *s, Value *value, uintptr_t index) noexcept {
    const SessionState *state = SessionState::find(s);
    if (state == nullptr || state->limits().rules().first() == nullptr) {
        return set_not_found(*value);
    }
    return decision_variables()[index].get(s->connection->pool, *value,
                                           {state->limits(), state->was_delayed()});
}

/// `name` is the variable's whole name.
ngx_int_t get_network(ngx_stream_session_t *s, Value *value, uintptr_t name) noexcept {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): nginx stores a pointer there
    const auto bits = rate_limit::network_bits_of(view(*reinterpret_cast<const ngx_str_t *>(name)));
    return bits ? set_network(*s->connection, s->connection->pool, *value, *bits)
                : set_not_found(*value);
}

ngx_int_t get_usual_network(ngx_stream_session_t *s, Value *value, uintptr_t bits) noexcept {
    return set_network(*s->connection, s->connection->pool, *value, static_cast<unsigned>(bits));
}

ngx_int_t add(ngx_conf_t *cf, std::string_view name, ngx_stream_get_variable_pt get, uintptr_t data,
              ngx_uint_t flags = 0) {
    ngx_str_t its_name = to_ngx(name);
    ngx_stream_variable_t *variable =
        ngx_stream_add_variable(cf, &its_name, flags | NGX_STREAM_VAR_NOCACHEABLE);
    if (variable == nullptr) {
        return NGX_ERROR;
    }
    variable->get_handler = get;
    variable->data = data;
    return NGX_OK;
}

} // namespace

ngx_int_t add_variables(ngx_conf_t *cf) noexcept {
    const auto decisions = decision_variables();
    for (size_t i = 0; i < decisions.size(); ++i) {
        if (add(cf, decisions[i].name, get_decision, i) != NGX_OK) {
            return NGX_ERROR;
        }
    }
    // nginx gives a variable with a prefix its name in the place of `data`.
    if (add(cf, rate_limit::network_variable_prefix, get_network, 0, NGX_STREAM_VAR_PREFIX) !=
        NGX_OK) {
        return NGX_ERROR;
    }
    return add(cf, rate_limit::network_variable, get_usual_network,
               rate_limit::network_bits_of(rate_limit::network_variable).value_or(0));
}

bool check_variables(ngx_conf_t *cf) {
    const auto &core = *static_cast<const ngx_stream_core_main_conf_t *>(
        ngx_stream_conf_get_module_main_conf(cf, ngx_stream_core_module));
    const auto wrong =
        wrong_network_variable<ngx_stream_variable_t>(core.variables, core.variables_keys->keys);
    if (wrong) {
        log_wrong_network_variable(cf, *wrong);
    }
    return !wrong;
}

} // namespace nginx_module::stream
