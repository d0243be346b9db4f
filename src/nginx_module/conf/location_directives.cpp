// A location's directives other than its rules, their defaults, and how all are inherited.
#include "nginx_module/conf/configuration.hpp"
#include "nginx_module/conf/directives.hpp"
#include "nginx_module/conf/parameters.hpp"
#include "rate_limit/text/text.hpp"

#include <new>
#include <optional>

namespace nginx_module {

namespace {

char *refuse_second(ngx_conf_t *cf, const char *directive) {
    return refuse(cf, directive, "second value", view(words_of(cf)[1]), "one on a level");
}

struct NamedChoice {
    std::string_view name;
    ngx_uint_t choice;
};

/// Returns the choice of that name, or nothing if there is none.
template <size_t n>
std::optional<ngx_uint_t> choose(const NamedChoice (&choices)[n], std::string_view name) {
    for (const auto &[choice_name, choice] : choices) {
        if (choice_name == name) {
            return choice;
        }
    }
    return std::nullopt;
}

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

} // namespace

void *create_location_conf(ngx_conf_t *cf) noexcept {
    void *memory = ngx_palloc(cf->pool, sizeof(LocationConf));
    if (memory == nullptr) {
        return nullptr;
    }
    return new (memory) LocationConf{.rules = nullptr,
                                     .dry_run = NGX_CONF_UNSET,
                                     .problem = NGX_CONF_UNSET,
                                     .status = NGX_CONF_UNSET_UINT,
                                     .log_level = NGX_CONF_UNSET_UINT,
                                     .headers = NGX_CONF_UNSET_UINT,
                                     .page = {}};
}

char *merge_location_conf(ngx_conf_t *cf, void *outer, void *inner) noexcept {
    const auto &from = *static_cast<const LocationConf *>(outer);
    auto &to = *static_cast<LocationConf *>(inner);
    if (to.rules == nullptr) {
        to.rules = from.rules;
    }
    ngx_conf_merge_value(to.dry_run, from.dry_run, 0);
    ngx_conf_merge_value(to.problem, from.problem, 0);
    ngx_conf_merge_uint_value(to.status, from.status, NGX_HTTP_TOO_MANY_REQUESTS);
    ngx_conf_merge_uint_value(to.log_level, from.log_level, NGX_LOG_ERR);
    ngx_conf_merge_uint_value(to.headers, from.headers, x_headers | ietf_headers);
    inherit_page(cf, from, to);
    if (to.rules != nullptr) {
        main_conf(cf).locations.push_back(&to);
    }
    return NGX_CONF_OK;
}

char *set_status(ngx_conf_t *cf, ngx_command_t * /*command*/, void *conf) noexcept {
    auto &status = static_cast<LocationConf *>(conf)->status;
    const std::string_view value = view(words_of(cf)[1]);
    if (status != NGX_CONF_UNSET_UINT) {
        return refuse_second(cf, "redis_rate_limit_status");
    }
    const auto code = rate_limit::parse_whole_number(value, 599);
    if (!code || *code < 400) {
        return refuse(cf, "redis_rate_limit_status", "code", value, "400 to 599");
    }
    status = *code;
    return NGX_CONF_OK;
}

char *set_log_level(ngx_conf_t *cf, ngx_command_t * /*command*/, void *conf) noexcept {
    constexpr NamedChoice levels[] = {{"info", NGX_LOG_INFO},
                                      {"notice", NGX_LOG_NOTICE},
                                      {"warn", NGX_LOG_WARN},
                                      {"error", NGX_LOG_ERR}};
    auto &log_level = static_cast<LocationConf *>(conf)->log_level;
    const std::string_view value = view(words_of(cf)[1]);
    if (log_level != NGX_CONF_UNSET_UINT) {
        return refuse_second(cf, "redis_rate_limit_log_level");
    }
    const auto level = choose(levels, value);
    if (!level) {
        return refuse(cf, "redis_rate_limit_log_level", "level", value,
                      "info, notice, warn or error");
    }
    log_level = *level;
    return NGX_CONF_OK;
}

char *set_headers(ngx_conf_t *cf, ngx_command_t * /*command*/, void *conf) noexcept {
    constexpr NamedChoice families[] = {{"x", x_headers}, {"ietf", ietf_headers}};
    constexpr const char *directive = "redis_rate_limit_headers";
    auto &headers = static_cast<LocationConf *>(conf)->headers;
    const auto values = words_of(cf).subspan(1);
    if (headers != NGX_CONF_UNSET_UINT) {
        return refuse_second(cf, directive);
    }
    headers = no_headers;
    if (values.size() == 1 && view(values[0]) == "off") {
        return NGX_CONF_OK;
    }
    for (const ngx_str_t &value : values) {
        const auto family = choose(families, view(value));
        if (!family || (headers & *family) != 0) {
            return refuse(cf, directive, "value", view(value),
                          "off alone, or x and ietf, each once");
        }
        headers |= *family;
    }
    return NGX_CONF_OK;
}

} // namespace nginx_module
