#include "conf.hpp"

#include "../rate_limit/headers.hpp"
#include "backend.hpp"
#include "backend_block.hpp"
#include "util.hpp"

#include <algorithm>

namespace nginx_module {

namespace {

template <typename T>
T *named(const std::vector<std::unique_ptr<T>> &all, std::string_view name) {
    for (const auto &one : all) {
        if (one->name == name) {
            return one.get();
        }
    }
    return nullptr;
}

bool refuse_unknown(ngx_conf_t *cf, const Position &position, const char *directive,
                    const char *what, std::string_view name) {
    ngx_str_t unknown = to_ngx(name);
    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "%s: unknown %s \"%V\", expected a defined one in %V:%ui", directive, what,
                  &unknown, &position.file, position.line);
    return false;
}

bool link_zone(ngx_conf_t *cf, MainConf &conf, ZoneConf &zone) {
    zone.backend = conf.backend(zone.backend_name);
    if (zone.backend == nullptr && zone.backend_name == "default") {
        conf.backends.push_back(std::make_unique<BackendConf>("default"));
        zone.backend = conf.backends.back().get();
    }
    if (zone.backend == nullptr) {
        return refuse_unknown(cf, zone.position, "redis_rate_limit_zone", "backend",
                              zone.backend_name);
    }
    return !zone.backend->addresses.empty() || add_server(cf, *zone.backend, "127.0.0.1");
}

bool link_rule(ngx_conf_t *cf, const MainConf &conf, RuleConf &rule) {
    rule.zone = conf.zone(rule.rule.zone);
    if (rule.zone == nullptr) {
        return refuse_unknown(cf, rule.position, "redis_rate_limit", "zone", rule.rule.zone);
    }
    BackendConf &backend = *rule.zone->backend;
    rule.prepared.emplace(rule.rule, backend.prefix);
    auto &scripts = backend.session.scripts;
    if (std::ranges::find(scripts, rule.prepared->script) == scripts.end()) {
        scripts.push_back(rule.prepared->script);
    }
    rule.name = rule.rule.name();
    rule.policy_item = rate_limit::rate_limit_policy_item(rule.rule);
    return true;
}

} // namespace

BackendConf::BackendConf(std::string a_name) : name(std::move(a_name)) {}

BackendConf::~BackendConf() = default;

BackendConf *MainConf::backend(std::string_view name) const {
    return named(backends, name);
}

ZoneConf *MainConf::zone(std::string_view name) const {
    return named(zones, name);
}

void *create_main_conf(ngx_conf_t *cf) noexcept {
    return pool_new<MainConf>(cf->pool, destroy<MainConf>);
}

void *create_location_conf(ngx_conf_t *cf) noexcept {
    void *memory = ngx_palloc(cf->pool, sizeof(LocationConf));
    if (memory == nullptr) {
        return nullptr;
    }
    return new (memory) LocationConf{.has_rules = false,
                                     .rule = nullptr,
                                     .status = NGX_CONF_UNSET_UINT,
                                     .log_level = NGX_CONF_UNSET_UINT,
                                     .headers = NGX_CONF_UNSET_UINT};
}

char *merge_location_conf(ngx_conf_t * /*cf*/, void *outer, void *inner) noexcept {
    const auto &from = *static_cast<const LocationConf *>(outer);
    auto &to = *static_cast<LocationConf *>(inner);
    if (!to.has_rules) {
        to.has_rules = from.has_rules;
        to.rule = from.rule;
    }
    ngx_conf_merge_uint_value(to.status, from.status, NGX_HTTP_TOO_MANY_REQUESTS);
    ngx_conf_merge_uint_value(to.log_level, from.log_level, NGX_LOG_ERR);
    ngx_conf_merge_uint_value(to.headers, from.headers, x_headers | ietf_headers);
    return NGX_CONF_OK;
}

bool link_configuration(ngx_conf_t *cf, MainConf &conf) {
    for (const auto &zone : conf.zones) {
        if (!link_zone(cf, conf, *zone)) {
            return false;
        }
    }
    for (const auto &rule : conf.rules) {
        if (!link_rule(cf, conf, *rule)) {
            return false;
        }
    }
    return true;
}

} // namespace nginx_module
