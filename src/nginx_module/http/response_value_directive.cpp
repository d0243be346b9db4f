// The directive redis_rate_limit_response_value, which makes a variable.
#include "nginx_module/conf/parameters.hpp"
#include "nginx_module/decisions/variables.hpp"
#include "nginx_module/http/configuration.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace nginx_module {

namespace {

constexpr const char *directive = "redis_rate_limit_response_value";

/// Returns the name as nginx has it: without the dollar, in lower case. Returns nothing if the text
/// is no name of a variable.
std::optional<std::string> name_in(std::string_view text) {
    const auto is_of_name = [](u_char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '_';
    };
    if (text.size() < 2 || text[0] != '$') {
        return std::nullopt;
    }
    std::string name(text.substr(1));
    std::ranges::transform(name, name.begin(), [](u_char c) { return ngx_tolower(c); });
    return std::ranges::all_of(name, is_of_name) ? std::optional(std::move(name)) : std::nullopt;
}

/// Returns the number of the variable of that name, which is defined if it is new. Its value is
/// given to it when all directives are read. Returns nothing if another directive or a module has
/// defined one; a directive that comes later and does is refused by nginx.
std::optional<size_t> variable_of(ngx_conf_t *cf, std::string_view name) {
    auto &variables = main_conf(cf).response_variables;
    const auto known = std::ranges::find_if(
        variables, [name](const auto *variable) { return view(variable->name) == name; });
    if (known != variables.end()) {
        return known - variables.begin();
    }
    const auto &core = *static_cast<const ngx_http_core_main_conf_t *>(
        ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module));
    ngx_str_t its_name = to_ngx(name);
    ngx_http_variable_t *variable =
        is_defined(core.variables_keys->keys, name)
            ? nullptr
            : ngx_http_add_variable(cf, &its_name, NGX_HTTP_VAR_NOCACHEABLE);
    if (variable == nullptr) {
        return std::nullopt;
    }
    variables.push_back(variable);
    return variables.size() - 1;
}

ResponseValues &values_of_level(ngx_conf_t *cf, LocationConf &level) {
    if (level.response_values == nullptr) {
        auto &all = main_conf(cf).response_values;
        all.push_back(std::make_unique<ResponseValues>());
        level.response_values = all.back().get();
    }
    return *level.response_values;
}

} // namespace

char *set_response_value(ngx_conf_t *cf, ngx_command_t * /*command*/, void *conf) noexcept {
    const auto words = values_of(cf);
    const std::string_view variable_text = words[0];
    const auto name = name_in(variable_text);
    if (!name) {
        return refuse(cf, directive, "variable", variable_text, "$ and a name of A-Za-z0-9_");
    }
    const auto variable = variable_of(cf, *name);
    if (!variable) {
        return refuse(cf, directive, "variable", variable_text, "a name that nothing else defines");
    }
    ResponseValues &level = values_of_level(cf, *static_cast<LocationConf *>(conf));
    if (std::ranges::find(level.values, *variable, &ResponseValues::Value::variable) !=
        level.values.end()) {
        return refuse(cf, directive, "variable", variable_text, "each name only once on a level");
    }
    ResponseValues::Value value{*variable, {}};
    if (const char *expected = value.expression.parse(words[1], level.paths)) {
        return refuse(cf, directive, "expression", words[1], expected);
    }
    level.values.push_back(std::move(value));
    return NGX_CONF_OK;
}

} // namespace nginx_module
