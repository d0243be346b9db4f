#include "nginx_module/worker/worker.hpp"

#include "limiter/live/live_sync.hpp"
#include "nginx_module/io/nginx_backend_log.hpp"
#include "nginx_module/io/nginx_live_log.hpp"
#include "nginx_module/io/nginx_world.hpp"
#include "nginx_module/worker/nginx_worker_log.hpp"

#include <memory>
#include <vector>

namespace nginx_module {

namespace {

/// What the worker refers to, and itself.
struct Process {
    explicit Process(const MainConf &conf) : world(conf) {}

    NginxWorld world;
    NginxBackendLog backend_log{*ngx_cycle->log};
    NginxLiveLog live_log{*ngx_cycle->log};
    NginxWorkerLog worker_log;
    redis_client::Backends backends{[this](const redis_client::BackendSettings &settings) {
        return redis_client::make_backend(settings, world, backend_log);
    }};
    limiter::Worker worker{world, backends, worker_log};
    std::vector<std::unique_ptr<limiter::LiveSync>> live; // one for each backend that rules use
};

std::unique_ptr<Process> process;

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
    process->live.push_back(std::make_unique<limiter::LiveSync>(
        backend, process->backends.of(backend), zones, rules, process->world, process->live_log));
}

} // namespace

void start_worker(const MainConf &conf) {
    process = std::make_unique<Process>(conf);
    for (const auto &backend : conf.backends) {
        if (backend->is_used()) {
            follow(conf, *backend);
        }
    }
}

limiter::Worker &this_worker() {
    return process->worker;
}

void stop_worker() {
    if (process != nullptr) {
        process->worker.leases.return_all();
        process->live.clear();
        process->backends.stop();
    }
}

} // namespace nginx_module
