#include "nginx_module/conf/configuration.hpp"

#include "nginx_module/util.hpp"

#include <algorithm>
#include <utility>

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

} // namespace

rate_limit::TopKeys::Kept ZoneConf::kept_top_keys() const {
    if (!has_top_keys || show_keys == ShowKeys::off) {
        return rate_limit::TopKeys::Kept::nothing;
    }
    return show_keys == ShowKeys::hash ? rate_limit::TopKeys::Kept::hashes
                                       : rate_limit::TopKeys::Kept::keys;
}

bool RuleConf::owns(const redis_client::WireWords &given) const {
    const auto is_given = [&](const redis_client::WireWords &own) { return &own == &given; };
    return std::ranges::any_of(arguments, is_given) ||
           (leasing_arguments && is_given(*leasing_arguments));
}

BackendConf &MainConf::add_backend(std::string name) {
    backends.push_back(std::make_unique<BackendConf>(backends.size(), std::move(name)));
    return *backends.back();
}

BackendConf *MainConf::backend(std::string_view name) const {
    return named(backends, name);
}

ZoneConf *MainConf::zone(std::string_view name) const {
    return named(zones, name);
}

bool are_asked_together(const RuleConf &rule, const RuleConf &other) {
    const BackendConf *backend = rule.zone->backend;
    if (&rule == &other || backend != other.zone->backend ||
        backend->mode != redis_client::Mode::cluster) {
        return backend == other.zone->backend;
    }
    return rule.zone == other.zone && rule.rule.shards == 1 && other.rule.shards == 1;
}

void *create_main_conf(ngx_conf_t *cf) noexcept {
    return pool_new<MainConf>(cf->pool, destroy<MainConf>);
}

} // namespace nginx_module
