#include "nginx_module/conf/warnings.hpp"

#include "nginx_module/conf/parameters.hpp"
#include "nginx_module/util.hpp"
#include "rate_limit/settings/zone_parameters.hpp"

#include <algorithm>

namespace nginx_module {

namespace {

void warn_of_unused_backend(ngx_conf_t *cf, const ZoneConf &zone, std::string_view backend) {
    ngx_str_t name = to_ngx(backend);
    ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                  "%s: zone \"%s\" has no backend= and so counts in the default one, while no zone "
                  "has the backend \"%V\", expected backend=%V, or backend=default if that is "
                  "meant, in %V:%ui",
                  zone_directive, zone.name.c_str(), &name, &name, &zone.position.file,
                  zone.position.line);
}

void warn_of_unused_backends(ngx_conf_t *cf, const MainConf &conf) {
    const auto has_none = [](const auto &zone) { return zone->backend_name.empty(); };
    const auto zone = std::ranges::find_if(conf.zones, has_none);
    if (zone == conf.zones.end()) {
        return;
    }
    for (const auto &backend : conf.backends) {
        const std::string_view name =
            std::string_view(backend->name).substr(conf.context.backend_prefix.size());
        const bool is_named = std::ranges::any_of(
            conf.zones, [&](const auto &other) { return other->backend_name == name; });
        if (!is_named && name != rate_limit::default_backend) {
            warn_of_unused_backend(cf, **zone, name);
        }
    }
}

/// A key such as `remote_addr`, of which the `$` was perhaps forgotten.
void warn_of_constant_key(ngx_conf_t *cf, const Context &context, const ZoneConf &zone) {
    const std::string_view key = view(zone.key_text);
    if (rate_limit::is_variable_name(key) && context.is_variable(cf, key)) {
        ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                      "%s: key \"%V\" is the name of a variable but has none, so that all clients "
                      "share a counter, expected \"$%V\", or another text if that is meant, in "
                      "%V:%ui",
                      zone_directive, &zone.key_text, &zone.key_text, &zone.position.file,
                      zone.position.line);
    }
}

} // namespace

void warn_of_zones(ngx_conf_t *cf, const MainConf &conf) {
    warn_of_unused_backends(cf, conf);
    for (const auto &zone : conf.zones) {
        warn_of_constant_key(cf, conf.context, *zone);
    }
}

bool looks_like_variable(std::string_view value) {
    if (!value.starts_with('$')) {
        return false;
    }
    value.remove_prefix(1);
    const bool has_braces = value.starts_with('{') && value.ends_with('}');
    return rate_limit::is_variable_name(has_braces ? value.substr(1, value.size() - 2) : value);
}

} // namespace nginx_module
