#include "nginx_module/http/location_warnings.hpp"

#include "nginx_module/util.hpp"
#include "rate_limit/text/url_text.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

namespace nginx_module {

namespace {

/// Returns what a module of that name has for a location or server, or null. nginx may have been
/// built without the module, so nothing may refer to it by its symbol.
const void *conf_of(ngx_conf_t *cf, void *const *confs, std::string_view module_name) {
    const std::span modules(cf->cycle->modules, cf->cycle->modules_n);
    const auto module = std::ranges::find_if(
        modules, [&](const ngx_module_t *one) { return module_name == one->name; });
    return module != modules.end() ? confs[(*module)->ctx_index] : nullptr;
}

/// Returns what is first in a location's configuration of a module. The modules that this is asked
/// for begin it with a pointer or a size, which is null where their directives are not given: see
/// the structures ngx_http_..._loc_conf_t of nginx 1.18 to 1.31.
uintptr_t first_word(ngx_conf_t *cf, const HttpMainConf::Place &place,
                     std::string_view module_name) {
    const auto *conf = static_cast<const uintptr_t *>(conf_of(cf, place.confs, module_name));
    return conf != nullptr ? *conf : 0;
}

bool is_function(uintptr_t word, ngx_http_script_code_pt function) {
    return word == reinterpret_cast<uintptr_t>(function);
}

/// Whether the record that begins with this word may end what the directives do: it is of a `break`
/// or of a `rewrite` with that flag, behind which requests stay in the location.
bool may_break(const uintptr_t &word) {
#if (NGX_PCRE)
    if (is_function(word, ngx_http_script_regex_start_code)) {
        return reinterpret_cast<const ngx_http_script_regex_code_t &>(word).break_cycle != 0;
    }
#endif
    return is_function(word, ngx_http_script_break_code);
}

/// Whether the location answers every request by a `return`. The rewrite module keeps what its
/// directives do as a row of records of whole words, each of which begins with its function. What
/// an `if` encloses may be passed over.
bool always_returns(ngx_conf_t *cf, const HttpMainConf::Place &place) {
    const auto first = first_word(cf, place, "ngx_http_rewrite_module");
    if (first == 0) {
        return false;
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr): it is the pointer `codes`
    const auto &codes = *reinterpret_cast<const ngx_array_t *>(first);
    const std::span words(static_cast<const uintptr_t *>(codes.elts),
                          codes.nelts / sizeof(uintptr_t));
    for (size_t i = 0; i < words.size(); ++i) {
        if (is_function(words[i], ngx_http_script_return_code)) {
            return true;
        }
        if (may_break(words[i])) {
            return false;
        }
        if (is_function(words[i], ngx_http_script_if_code) && i + 1 < words.size()) {
            i += std::max<size_t>(words[i + 1] / sizeof(uintptr_t), 1) - 1; // its size in bytes
        }
    }
    return false;
}

void warn_of_return(ngx_conf_t *cf, const RuleConf &rule) {
    ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                  "redis_rate_limit: a \"return\" beside the rule answers before it is applied, "
                  "expected the answer in a location of its own to which try_files leads, or no "
                  "rule here, in %V:%ui",
                  &rule.position.file, rule.position.line);
}

/// Returns the location of the same server that answers for a path, or null. With regular
/// expressions nobody knows without trying them.
const HttpMainConf::Place *place_for(std::span<const HttpMainConf::Place> places,
                                     const HttpMainConf::Place &asking, std::string_view path) {
    const HttpMainConf::Place *best = nullptr;
    for (const HttpMainConf::Place &one : places) {
        const std::string_view name = view(one.core->name);
        if (one.server == asking.server && !one.core->exact_match && path.starts_with(name) &&
            (best == nullptr || name.size() > best->core->name.len)) {
            best = &one;
        }
    }
    return best;
}

bool has_regular_expressions(std::span<const HttpMainConf::Place> places,
                             const HttpMainConf::Place &of) {
#if (NGX_PCRE)
    return std::ranges::any_of(places, [&](const HttpMainConf::Place &one) {
        return one.server == of.server && one.core->regex != nullptr;
    });
#else
    return false;
#endif
}

/// Whether the dashboard's API is where it says, or requests for it are passed on.
bool leads_to_api(std::span<const HttpMainConf::Place> places,
                  const HttpMainConf::Place &dashboard) {
    const std::string_view written = dashboard.conf->page.dashboard_api;
    std::string buffer(written.size(), '\0');
    const std::string_view path = rate_limit::decode_percent(written, buffer).value_or(written);
    const HttpMainConf::Place *found = place_for(places, dashboard, path);
    if (found == nullptr) {
        return has_regular_expressions(places, dashboard);
    }
    const PageConf &page = found->conf->page;
    const bool is_passed_on = found->core->handler != nullptr && page.handler == nullptr;
    return (page.api != ApiAccess::none && view(found->core->name) == path) || is_passed_on ||
           has_regular_expressions(places, dashboard);
}

void warn_of_dashboard(ngx_conf_t *cf, const HttpMainConf::Place &dashboard) {
    ngx_str_t path = to_ngx(dashboard.conf->page.dashboard_api);
    ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                  "redis_rate_limit_dashboard: api \"%V\" of location \"%V\" leads to no API, "
                  "expected the path of a location of this server with redis_rate_limit_api, or "
                  "of one that passes requests on to it",
                  &path, &dashboard.core->name);
}

bool is_of_this_host(const sockaddr &address) {
    switch (address.sa_family) {
    case AF_INET:
        return ntohl(reinterpret_cast<const sockaddr_in &>(address).sin_addr.s_addr) >> 24 ==
               IN_LOOPBACKNET;
    case AF_INET6:
        return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6 &>(address).sin6_addr);
    default:
        return true; // a unix socket
    }
}

template <typename T>
std::span<const T> elements_of(const ngx_array_t &array) {
    return {static_cast<const T *>(array.elts), array.nelts};
}

/// Whether the server listens on addresses of this host alone.
bool is_local(ngx_conf_t *cf, const ngx_http_core_srv_conf_t &server) {
    const auto &core = *static_cast<const ngx_http_core_main_conf_t *>(
        ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module));
    if (core.ports == nullptr) {
        return false;
    }
    for (const auto &port : elements_of<ngx_http_conf_port_t>(*core.ports)) {
        for (const auto &address : elements_of<ngx_http_conf_addr_t>(port.addrs)) {
            const auto servers = elements_of<ngx_http_core_srv_conf_t *>(address.servers);
            if (std::ranges::find(servers, &server) != servers.end() &&
                !is_of_this_host(*address.opt.sockaddr)) {
                return false;
            }
        }
    }
    return true;
}

bool verifies_clients(ngx_conf_t *cf, const ngx_http_core_srv_conf_t &server) {
#if (NGX_HTTP_SSL)
    const auto *ssl = static_cast<const ngx_http_ssl_srv_conf_t *>(
        conf_of(cf, server.ctx->srv_conf, "ngx_http_ssl_module"));
    return ssl != nullptr && ssl->verify != 0;
#else
    return false;
#endif
}

/// Whether something decides who reaches the location.
bool is_guarded(ngx_conf_t *cf, const HttpMainConf::Place &place) {
    constexpr std::string_view guards[] = {"ngx_http_access_module", "ngx_http_auth_basic_module",
                                           "ngx_http_auth_request_module"};
    const ngx_http_core_loc_conf_t &core = *place.core;
    const bool has_guard = std::ranges::any_of(
        guards, [&](std::string_view module) { return first_word(cf, place, module) != 0; });
    return has_guard || core.internal || core.limit_except != 0 ||
           core.satisfy == NGX_HTTP_SATISFY_ANY || verifies_clients(cf, *place.server) ||
           is_local(cf, *place.server);
}

void warn_of_open_api(ngx_conf_t *cf, const HttpMainConf::Place &place) {
    ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                  "redis_rate_limit_api: everybody can write by location \"%V\", expected allow "
                  "and deny, auth_basic, auth_request, ssl_verify_client, or a listen on an "
                  "address of this host; or \"allow all;\" if everybody is meant",
                  &place.core->name);
}

} // namespace

void warn_of_locations(ngx_conf_t *cf, const HttpMainConf &conf) {
    for (const HttpMainConf::Place &place : conf.places) {
        if (place.has_own_rules && always_returns(cf, place)) {
            warn_of_return(cf, *static_cast<const RuleConf *>(place.conf->rules->front()));
        }
        const PageConf &page = place.conf->page;
        if (!page.dashboard_api.empty() && !leads_to_api(conf.places, place)) {
            warn_of_dashboard(cf, place);
        }
        if (page.api == ApiAccess::write && !is_guarded(cf, place)) {
            warn_of_open_api(cf, place);
        }
    }
}

} // namespace nginx_module
