#include "nginx_module/conf/configuration.hpp"

namespace nginx_module {

BackendConf &MainConf::add_backend(std::string_view name) {
    std::string whole_name(context.backend_prefix);
    whole_name += name;
    backends.push_back(std::make_unique<BackendConf>(backends.size(), std::move(whole_name)));
    return *backends.back();
}

BackendConf *MainConf::backend(std::string_view name) const {
    for (const auto &one : backends) {
        if (std::string_view(one->name).substr(context.backend_prefix.size()) == name) {
            return one.get();
        }
    }
    return nullptr;
}

ZoneConf *MainConf::zone(std::string_view name) const {
    for (const auto &one : zones) {
        if (one->name == name) {
            return one.get();
        }
    }
    return nullptr;
}

} // namespace nginx_module
