#include "nginx_module/pages/page_directives.hpp"

#include "nginx_module/conf/parameters.hpp"
#include "nginx_module/http/configuration.hpp"
#include "nginx_module/pages/api/page.hpp"
#include "nginx_module/pages/dashboard/dashboard_page.hpp"
#include "nginx_module/pages/metrics/metrics_page.hpp"

#include <algorithm>

namespace nginx_module {

namespace {

ngx_http_core_loc_conf_t &core_location_conf(ngx_conf_t *cf) {
    return *static_cast<ngx_http_core_loc_conf_t *>(
        ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module));
}

PageConf &page_of(void *location_conf) {
    return static_cast<LocationConf *>(location_conf)->page;
}

/// Sets the location's content handler. Refuses a second one of this module in the same location.
char *set_content_handler(ngx_conf_t *cf, const char *directive, PageConf &page,
                          ngx_http_handler_pt handler) {
    ngx_http_handler_pt &place = core_location_conf(cf).handler;
    if (place != nullptr && place == page.handler) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "%s: a location serves one thing, expected a single line of "
                           "redis_rate_limit_metrics, redis_rate_limit_dashboard or "
                           "redis_rate_limit_api",
                           directive);
        return static_cast<char *>(NGX_CONF_ERROR);
    }
    place = page.handler = handler;
    return NGX_CONF_OK;
}

/// Does the same for a handler of all that is below the location. Refuses a location that is no
/// prefix which ends in a slash.
char *set_prefix_handler(ngx_conf_t *cf, const char *directive, PageConf &page,
                         ngx_http_handler_pt handler) {
    ngx_http_core_loc_conf_t &core = core_location_conf(cf);
    bool is_prefix = !core.exact_match && !core.named && !core.noname;
#if (NGX_PCRE)
    is_prefix = is_prefix && core.regex == nullptr;
#endif
    if (!is_prefix || !view(core.name).ends_with('/')) {
        return refuse(cf, directive, "location", view(core.name), "a prefix that ends in /");
    }
    core.auto_redirect = 1; // nginx redirects the prefix without its slash
    return set_content_handler(cf, directive, page, handler);
}

/// Whether a text is a path of this server that ends in a slash. It has no character that means
/// something in HTML or ends a path in a URL, for the page has it as it is.
bool is_path_of_api(std::string_view text) {
    const auto is_allowed = [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
               std::string_view("/._~%-").find(c) != std::string_view::npos;
    };
    return text.starts_with('/') && !text.starts_with("//") && text.ends_with('/') &&
           std::ranges::all_of(text, is_allowed);
}

constexpr Parameter<PageConf> dashboard_parameters[] = {
    {"api",
     [](PageConf &page, std::string_view value) -> const char * {
         page.dashboard_api = value;
         return is_path_of_api(value) ? nullptr
                                      : "the path of a location with redis_rate_limit_api: / at "
                                        "both ends, and A-Za-z0-9._~%/- between them";
     }},
};

} // namespace

char *set_metrics(ngx_conf_t *cf, ngx_command_t * /*command*/, void *conf) noexcept {
    constexpr const char *directive = "redis_rate_limit_metrics";
    const auto words = words_of(cf);
    const std::string_view format = words.size() > 1 ? view(words[1]) : "prometheus";
    if (format != "prometheus" && format != "json") {
        return refuse(cf, directive, "format", format, "prometheus or json");
    }
    return set_content_handler(cf, directive, page_of(conf),
                               format == "json" ? json_handler : prometheus_handler);
}

char *set_api(ngx_conf_t *cf, ngx_command_t * /*command*/, void *conf) noexcept {
    constexpr const char *directive = "redis_rate_limit_api";
    const auto words = words_of(cf);
    if (words.size() > 1 && view(words[1]) != "write") {
        return refuse(cf, directive, "parameter", view(words[1]), "write or nothing");
    }
    PageConf &page = page_of(conf);
    page.api = words.size() > 1 ? ApiAccess::write : ApiAccess::read;
    prepare_api();
    return set_prefix_handler(cf, directive, page, api_handler);
}

char *set_dashboard(ngx_conf_t *cf, ngx_command_t * /*command*/, void *conf) noexcept {
    constexpr const char *directive = "redis_rate_limit_dashboard";
    PageConf &page = page_of(conf);
    char *result =
        result_of(cf, directive,
                  rate_limit::set_parameters<PageConf>(dashboard_parameters, values_of(cf), page));
    if (result != NGX_CONF_OK) {
        return result;
    }
    prepare_dashboard();
    return set_prefix_handler(cf, directive, page, dashboard_handler);
}

} // namespace nginx_module
