#include "redis_client/link/backends.hpp"

#include "redis_client/link/cluster.hpp"
#include "redis_client/link/single_node.hpp"

namespace redis_client {

std::unique_ptr<Backend> make_backend(const BackendSettings &settings, World &world,
                                      BackendLog &log) {
    if (settings.mode == Mode::cluster) {
        return std::make_unique<Cluster>(settings, world, log);
    }
    return std::make_unique<SingleNode>(settings, world, log);
}

Backend &Backends::of(const BackendSettings &settings) {
    if (settings.index >= running_.size()) {
        running_.resize(settings.index + 1);
    }
    auto &backend = running_[settings.index];
    if (backend == nullptr) {
        backend = make_(settings);
    }
    return *backend;
}

void Backends::settle(const BackendSettings &settings, const SettlementOrder &order) {
    if (is_stopped_) {
        count_lost(order);
    } else {
        of(settings).settle(order);
    }
}

void Backends::stop() {
    for (const auto &backend : running_) {
        if (backend != nullptr) {
            backend->send_now();
        }
    }
    is_stopped_ = true;
    running_.clear();
}

} // namespace redis_client
