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

void *create_main_conf(ngx_conf_t *cf) noexcept {
    return pool_new<MainConf>(cf->pool, destroy<MainConf>);
}

} // namespace nginx_module
