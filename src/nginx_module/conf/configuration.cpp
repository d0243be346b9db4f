#include "configuration.hpp"

#include "../util.hpp"

#include <algorithm>
#include <utility>

namespace nginx_module {

namespace {

/// The indexes that backends have, of all configurations that the process still knows.
std::vector<bool> &taken_indexes() {
    static std::vector<bool> taken;
    return taken;
}

template <typename T>
T *named(const std::vector<std::unique_ptr<T>> &all, std::string_view name) {
    for (const auto &one : all) {
        if (one->name == name) {
            return one.get();
        }
    }
    return nullptr;
}

} // namespace

BackendIndex::BackendIndex() {
    std::vector<bool> &taken = taken_indexes();
    const auto free = std::ranges::find(taken, false);
    value_ = static_cast<size_t>(free - taken.begin());
    if (free == taken.end()) {
        taken.push_back(true);
    } else {
        *free = true;
    }
}

BackendIndex::~BackendIndex() {
    taken_indexes()[value_] = false;
}

rate_limit::TopKeys::Kept ZoneConf::kept_top_keys() const {
    if (!has_top_keys || show_keys == ShowKeys::off) {
        return rate_limit::TopKeys::Kept::nothing;
    }
    return show_keys == ShowKeys::hash ? rate_limit::TopKeys::Kept::hashes
                                       : rate_limit::TopKeys::Kept::keys;
}

BackendConf *MainConf::backend(std::string_view name) const {
    return named(backends, name);
}

ZoneConf *MainConf::zone(std::string_view name) const {
    return named(zones, name);
}

bool are_asked_together(const RuleConf &rule, const RuleConf &other) {
    const BackendConf *backend = rule.zone->backend;
    if (&rule == &other || backend != other.zone->backend || backend->mode != Mode::cluster) {
        return backend == other.zone->backend;
    }
    return rule.zone == other.zone && rule.rule.shards == 1 && other.rule.shards == 1;
}

void *create_main_conf(ngx_conf_t *cf) noexcept {
    return pool_new<MainConf>(cf->pool, destroy<MainConf>);
}

void *create_location_conf(ngx_conf_t *cf) noexcept {
    void *memory = ngx_palloc(cf->pool, sizeof(LocationConf));
    if (memory == nullptr) {
        return nullptr;
    }
    return new (memory) LocationConf{.rules = nullptr,
                                     .dry_run = NGX_CONF_UNSET,
                                     .status = NGX_CONF_UNSET_UINT,
                                     .log_level = NGX_CONF_UNSET_UINT,
                                     .headers = NGX_CONF_UNSET_UINT};
}

char *merge_location_conf(ngx_conf_t *cf, void *outer, void *inner) noexcept {
    const auto &from = *static_cast<const LocationConf *>(outer);
    auto &to = *static_cast<LocationConf *>(inner);
    if (to.rules == nullptr) {
        to.rules = from.rules;
    }
    ngx_conf_merge_value(to.dry_run, from.dry_run, 0);
    ngx_conf_merge_uint_value(to.status, from.status, NGX_HTTP_TOO_MANY_REQUESTS);
    ngx_conf_merge_uint_value(to.log_level, from.log_level, NGX_LOG_ERR);
    ngx_conf_merge_uint_value(to.headers, from.headers, x_headers | ietf_headers);
    if (to.rules != nullptr) {
        main_conf(cf).locations.push_back(&to);
    }
    return NGX_CONF_OK;
}

} // namespace nginx_module
