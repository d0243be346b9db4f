#include "nginx_module/backend/backend.hpp"

#include "nginx_module/io/nginx_backend_log.hpp"
#include "nginx_module/io/nginx_world.hpp"
#include "redis_client/link/backends.hpp"

#include <optional>

namespace nginx_module {

namespace {

/// What this worker has once its process has begun.
struct Running {
    explicit Running(const MainConf &conf) : world(conf), log(*ngx_cycle->log) {}

    NginxWorld world;
    NginxBackendLog log;
    redis_client::Backends backends{world, log};
};

std::optional<Running> running;

} // namespace

void start_backends(const MainConf &conf) {
    running.emplace(conf);
    for (const auto &backend : conf.backends) {
        if (backend->is_used()) {
            backend_of(*backend);
        }
    }
}

redis_client::Backend &backend_of(const redis_client::BackendSettings &settings) {
    return running->backends.of(settings);
}

void stop_backends() {
    if (running) {
        running->backends.stop();
    }
}

} // namespace nginx_module
