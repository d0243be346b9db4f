#include "redis_client/link/backends.hpp"

#include "redis_client/link/cluster.hpp"
#include "redis_client/link/single_node.hpp"

namespace redis_client {

Backend &Backends::of(const BackendSettings &settings) {
    if (settings.index >= running_.size()) {
        running_.resize(settings.index + 1);
    }
    auto &backend = running_[settings.index];
    if (backend == nullptr) {
        if (settings.mode == Mode::cluster) {
            backend = std::make_unique<Cluster>(settings, world_, log_);
        } else {
            backend = std::make_unique<SingleNode>(settings, world_, log_);
        }
    }
    return *backend;
}

void Backends::stop() {
    for (const auto &backend : running_) {
        if (backend != nullptr) {
            backend->send_now();
        }
    }
    running_.clear();
}

} // namespace redis_client
