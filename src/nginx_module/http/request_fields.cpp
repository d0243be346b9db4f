#include "nginx_module/http/request_fields.hpp"

#include "nginx_module/decisions/variable_value.hpp"
#include "nginx_module/decisions/variables.hpp"
#include "nginx_module/http/configuration.hpp"
#include "nginx_module/util.hpp"
#include "rate_limit/text/field_value.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

namespace nginx_module {

namespace {

/// Returns the value of the field that the client sent once. Returns nothing if there is none, or
/// several, of which an upstream may take another one. Fields that nginx has skipped or merged do
/// not reach an upstream, either. The main request has what the client sent: a subrequest's fields
/// may be others.
std::optional<std::string_view> only_value(const ngx_http_request_t &r, std::string_view name) {
    std::optional<std::string_view> value;
    const ngx_list_part_t *part = &r.main->headers_in.headers.part;
    for (; part != nullptr; part = part->next) {
        for (const ngx_table_elt_t &field :
             std::span(static_cast<const ngx_table_elt_t *>(part->elts), part->nelts)) {
            if (field.hash == 0 || !rate_limit::is_field_named(view(field.key), name)) {
                continue;
            }
            if (value) {
                return std::nullopt;
            }
            value = view(field.value);
        }
    }
    return value;
}

ngx_int_t set_text(ngx_http_variable_value_t &value, std::optional<std::string_view> text) {
    return text && !text->empty() ? set_static(value, *text) : set_not_found(value);
}

ngx_int_t get_bearer(ngx_http_request_t *r, ngx_http_variable_value_t *value,
                     uintptr_t /*data*/) noexcept {
    const auto authorization = only_value(*r, "authorization");
    return set_text(*value,
                    authorization ? rate_limit::bearer_token(*authorization) : std::nullopt);
}

/// `variable` is the variable's whole name.
ngx_int_t get_field(ngx_http_request_t *r, ngx_http_variable_value_t *value,
                    uintptr_t variable) noexcept {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): nginx stores a pointer there
    const ngx_str_t &text = *reinterpret_cast<const ngx_str_t *>(variable);
    const std::string_view name = view(text).substr(rate_limit::field_variable_prefix.size());
    const auto field = only_value(*r, name);
    return set_text(*value,
                    field ? std::optional(rate_limit::without_outer_blanks(*field)) : std::nullopt);
}

bool add(ngx_conf_t *cf, std::string_view name, ngx_http_get_variable_pt get, ngx_uint_t flags) {
    ngx_str_t its_name = to_ngx(name);
    ngx_http_variable_t *variable = ngx_http_add_variable(cf, &its_name, flags);
    if (variable == nullptr) {
        return false;
    }
    variable->get_handler = get;
    return true;
}

} // namespace

bool add_field_variables(ngx_conf_t *cf) {
    return add(cf, rate_limit::bearer_variable, get_bearer, 0) &&
           add(cf, rate_limit::field_variable_prefix, get_field, NGX_HTTP_VAR_PREFIX);
}

bool check_field_variables(ngx_conf_t *cf) {
    const auto &core = *static_cast<const ngx_http_core_main_conf_t *>(
        ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module));
    const std::span used(static_cast<const ngx_http_variable_t *>(core.variables.elts),
                         core.variables.nelts);
    for (const ngx_http_variable_t &variable : used) {
        const std::string_view name = view(variable.name);
        if (!rate_limit::is_field_variable(name) ||
            (name != rate_limit::bearer_variable && is_defined(core.variables_keys->keys, name))) {
            continue;
        }
        if (name == rate_limit::field_variable_prefix) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "redis_rate_limit: invalid variable \"$%V\", expected the name of a "
                          "field behind it, as in $redis_rate_limit_field_x_api_key",
                          &variable.name);
            return false;
        }
        main_conf(cf).field_variables.push_back(&variable - used.data());
    }
    return true;
}

ngx_int_t post_read_handler(ngx_http_request_t *r) noexcept {
    for (const ngx_uint_t variable : main_conf(r).field_variables) {
        ngx_http_get_indexed_variable(r, variable);
    }
    return NGX_DECLINED;
}

} // namespace nginx_module
