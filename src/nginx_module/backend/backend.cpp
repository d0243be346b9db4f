#include "nginx_module/backend/backend.hpp"

#include "limiter/live/live_sync.hpp"
#include "nginx_module/io/nginx_backend_log.hpp"
#include "nginx_module/io/nginx_live_log.hpp"
#include "nginx_module/io/nginx_world.hpp"
#include "redis_client/link/backends.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace nginx_module {

namespace {

/// What this worker has once its process has begun.
struct Running {
    explicit Running(const MainConf &conf)
        : world(conf), log(*ngx_cycle->log), live_log(*ngx_cycle->log) {}

    NginxWorld world;
    NginxBackendLog log;
    NginxLiveLog live_log;
    redis_client::Backends backends{world, log};
    std::vector<std::unique_ptr<limiter::LiveSync>> live; // one for each backend that rules use
};

std::optional<Running> running;

/// Follows what operators set for the zones and rules of the backend.
void follow(const MainConf &conf, const BackendConf &backend) {
    std::vector<const limiter::Zone *> zones;
    for (const auto &zone : conf.zones) {
        if (zone->backend == &backend) {
            zones.push_back(zone.get());
        }
    }
    std::vector<const limiter::Rule *> rules;
    for (const auto &rule : conf.rules) {
        if (rule->zone->backend == &backend) {
            rules.push_back(rule.get());
        }
    }
    running->live.push_back(std::make_unique<limiter::LiveSync>(
        backend, backend_of(backend), zones, rules, running->world, running->live_log));
}

} // namespace

void start_backends(const MainConf &conf) {
    running.emplace(conf);
    for (const auto &backend : conf.backends) {
        if (backend->is_used()) {
            follow(conf, *backend);
        }
    }
}

redis_client::Backend &backend_of(const redis_client::BackendSettings &settings) {
    return running->backends.of(settings);
}

void stop_backends() {
    if (running) {
        running->live.clear();
        running->backends.stop();
    }
}

} // namespace nginx_module
