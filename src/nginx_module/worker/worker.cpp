#include "nginx_module/worker/worker.hpp"

namespace nginx_module {

WorkerProcess::WorkerProcess(const MainConf &conf) : world_(conf) {
    for (const auto &backend : conf.backends) {
        if (backend->is_used()) {
            follow(conf, *backend);
        }
    }
}

/// Follows what operators set for the zones and rules of the backend.
void WorkerProcess::follow(const MainConf &conf, const BackendConf &backend) {
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
    live_.push_back(std::make_unique<limiter::LiveSync>(backend, backends_.of(backend), zones,
                                                        rules, world_, live_log_));
}

void set_latest(const MainConf *conf) {
    if (conf != nullptr) {
        for (const auto &zone : conf->zones) {
            zone->memory.set_latest();
        }
    }
}

std::unique_ptr<WorkerProcess> start_worker(const MainConf *conf) {
    const bool serves = ngx_process == NGX_PROCESS_WORKER || ngx_process == NGX_PROCESS_SINGLE;
    if (conf == nullptr || !serves) {
        return nullptr;
    }
    // nginx's clock still shows when it began to read the configuration, or when another module
    // began to start. The timers that are made now would expire too early by that.
    ngx_time_update();
    for (const auto &zone : conf->zones) {
        // A reload may have changed this setting of memory that the old workers still use.
        zone->memory.top_keys().set_kept(zone->kept_top_keys());
    }
    return std::make_unique<WorkerProcess>(*conf);
}

void WorkerProcess::stop() {
    limiter_.leases.return_all();
    live_.clear();
    backends_.stop();
}

} // namespace nginx_module
