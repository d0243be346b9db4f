// What a worker process does for the rules of one configuration: those of http, or of stream.
#pragma once

#include "nginx_module/ngx.hpp"

#include "limiter/live/live_sync.hpp"
#include "limiter/worker.hpp"
#include "nginx_module/conf/configuration.hpp"
#include "nginx_module/io/nginx_backend_log.hpp"
#include "nginx_module/io/nginx_live_log.hpp"
#include "nginx_module/io/nginx_world.hpp"
#include "nginx_module/worker/nginx_worker_log.hpp"

#include <memory>
#include <vector>

namespace nginx_module {

class WorkerProcess {
  public:
    /// Connects to all backends that rules use, so that the first request need not wait for that,
    /// and begins to follow what operators set in them. The configuration outlives it.
    explicit WorkerProcess(const MainConf &conf);

    limiter::Worker &limiter() { return limiter_; }

    /// Gives back what is left of the worker's leases and closes its backends, because it ends.
    /// Other workers follow what operators set.
    void stop();

  private:
    void follow(const MainConf &conf, const BackendConf &backend);

    NginxWorld world_;
    NginxBackendLog backend_log_{*ngx_cycle->log};
    NginxLiveLog live_log_{*ngx_cycle->log};
    NginxWorkerLog worker_log_;
    redis_client::Backends backends_{[this](const redis_client::BackendSettings &settings) {
        return redis_client::make_backend(settings, world_, backend_log_);
    }};
    limiter::Worker limiter_{world_, backends_, worker_log_};
    std::vector<std::unique_ptr<limiter::LiveSync>> live_; // one for each backend that rules use
};

/// Called when nothing can fail any more that would keep the configuration before. Both functions
/// take null where nginx has no block with such a configuration.
void set_latest(const MainConf *conf);
/// Called when a process starts. Returns null if it serves no clients.
std::unique_ptr<WorkerProcess> start_worker(const MainConf *conf);

} // namespace nginx_module
