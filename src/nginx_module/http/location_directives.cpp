// A location's directives other than its pages, and how locations inherit all they have.
#include "nginx_module/conf/directive_readers.hpp"
#include "nginx_module/conf/value_directives.hpp"
#include "nginx_module/http/configuration.hpp"
#include "rate_limit/rule/rule.hpp"
#include "rate_limit/text/header_values.hpp"
#include "rate_limit/text/times_and_numbers.hpp"

#include <chrono>
#include <optional>
#include <span>
#include <string_view>

namespace nginx_module {

namespace {

/// nginx itself keeps the handler for an `if` block, but not for `limit_except`.
void inherit_page(ngx_conf_t *cf, const LocationConf &from, LocationConf &to) {
    auto &core = *static_cast<ngx_http_core_loc_conf_t *>(
        ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module));
    if (!core.noname) {
        return;
    }
    to.page = from.page;
    if (core.lmt_excpt && core.handler == nullptr) {
        core.handler = to.page.handler;
    }
}

/// Keeps a place for warnings. Those of `if` and `limit_except` blocks are their location's.
void add_place(ngx_conf_t *cf, const LocationConf &conf, bool has_own_rules) {
    const auto *core = static_cast<const ngx_http_core_loc_conf_t *>(
        ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module));
    const auto *server = static_cast<const ngx_http_core_srv_conf_t *>(
        ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module));
    if (!core->noname && !core->named) {
        main_conf(cf).places.push_back(
            {.conf = &conf,
             .core = core,
             .server = server,
             .confs = static_cast<ngx_http_conf_ctx_t *>(cf->ctx)->loc_conf,
             .has_own_rules = has_own_rules});
    }
}

char *read_status(ngx_conf_t *cf, std::span<const ngx_str_t> values, ngx_uint_t &status) {
    const auto code = rate_limit::parse_whole_number(view(values[0]), 599);
    if (!code || *code < 400) {
        return refuse(cf, "redis_rate_limit_status", "code", view(values[0]), "400 to 599");
    }
    status = *code;
    return NGX_CONF_OK;
}

constexpr std::string_view expected_families =
    "off alone, or x and ietf, each once, and perhaps retry_after= behind them";

/// Returns the most seconds of Retry-After, 0 for none, or nothing if the text is neither `on`,
/// `off` nor such a time.
std::optional<ngx_uint_t> most_seconds_in(std::string_view text) {
    if (text == "on" || text == "off") {
        return text == "on" ? Headers::unbounded : 0;
    }
    const auto time = rate_limit::parse_time(text);
    const bool is_in_range = time >= std::chrono::seconds{1} && time <= rate_limit::longest_window;
    return is_in_range ? std::optional<ngx_uint_t>(rate_limit::seconds_up(time)) : std::nullopt;
}

char *read_headers(ngx_conf_t *cf, std::span<const ngx_str_t> values, ngx_uint_t &headers) {
    constexpr const char *directive = "redis_rate_limit_headers";
    constexpr NamedChoice known[] = {{"off", no_headers}, {"x", x_headers}, {"ietf", ietf_headers}};
    constexpr std::string_view parameter = "retry_after=";
    ngx_uint_t families = no_headers;
    ngx_uint_t most_seconds = Headers::unbounded;
    if (view(values.back()).starts_with(parameter)) {
        const std::string_view time = view(values.back()).substr(parameter.size());
        const auto seconds = most_seconds_in(time);
        if (!seconds) {
            return refuse(cf, directive, "retry_after", time, "on, off or a time from 1s to 366d");
        }
        most_seconds = *seconds;
        values = values.first(values.size() - 1);
    }
    if (values.empty()) {
        return refuse(cf, directive, "value", "", expected_families);
    }
    for (const ngx_str_t &value : values) {
        const auto family = choose(known, view(value));
        const bool is_alone = values.size() == 1;
        if (!family || (*family == no_headers && !is_alone) || (families & *family) != 0) {
            return refuse(cf, directive, "value", view(value), expected_families);
        }
        families |= *family;
    }
    headers = Headers(families, most_seconds).value();
    return NGX_CONF_OK;
}

constexpr ValueDirective<LocationConf> directives[] = {
    {"redis_rate_limit_dry_run", &LocationConf::dry_run, 0, NGX_CONF_FLAG, nullptr},
    {"redis_rate_limit_problem", &LocationConf::problem, 0, NGX_CONF_FLAG, nullptr},
    {"redis_rate_limit_status", &LocationConf::status, NGX_HTTP_TOO_MANY_REQUESTS, NGX_CONF_TAKE1,
     read_status},
    {"redis_rate_limit_log_level", &LocationConf::log_level, NGX_LOG_ERR, NGX_CONF_TAKE1,
     read_log_level},
    {"redis_rate_limit_headers", &LocationConf::headers,
     Headers(x_headers | ietf_headers, Headers::unbounded).value(), NGX_CONF_1MORE, read_headers},
};

} // namespace

std::span<const ngx_command_t, location_command_count> location_commands() {
    static const auto commands =
        commands_of(directives, NGX_HTTP_MAIN_CONF | NGX_HTTP_SRV_CONF | NGX_HTTP_LOC_CONF,
                    NGX_HTTP_LOC_CONF_OFFSET);
    return commands;
}

char *set_rule(ngx_conf_t *cf, ngx_command_t * /*command*/, void *conf) noexcept {
    return add_rule(cf, main_conf(cf), *static_cast<LocationConf *>(conf));
}

void *create_location_conf(ngx_conf_t *cf) noexcept {
    return make_level<LocationConf>(cf->pool, directives);
}

char *merge_location_conf(ngx_conf_t *cf, void *outer, void *inner) noexcept {
    const auto &from = *static_cast<const LocationConf *>(outer);
    auto &to = *static_cast<LocationConf *>(inner);
    const bool has_own_rules = to.has_rules();
    merge_level<LocationConf>(from, to, directives);
    if (to.response_values == nullptr) {
        to.response_values = from.response_values;
    }
    inherit_page(cf, from, to);
    add_place(cf, to, has_own_rules);
    if (to.rules != nullptr) {
        main_conf(cf).levels.push_back(&to);
    }
    return NGX_CONF_OK;
}

} // namespace nginx_module
