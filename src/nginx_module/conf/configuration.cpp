#include "nginx_module/conf/configuration.hpp"

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

/// Returns the name under which others see a backend.
std::string shown_name(const Context &context, std::string_view name) {
    return std::string(context.backend_prefix).append(name);
}

} // namespace

BackendConf &MainConf::add_backend(std::string_view name) {
    backends.push_back(std::make_unique<BackendConf>(backends.size(), shown_name(context, name)));
    return *backends.back();
}

BackendConf *MainConf::backend(std::string_view name) const {
    return named(backends, shown_name(context, name));
}

ZoneConf *MainConf::zone(std::string_view name) const {
    return named(zones, name);
}

} // namespace nginx_module
