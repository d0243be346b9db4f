#include "nginx_module/http/worker.hpp"

#include "nginx_module/backend/backend.hpp"
#include "nginx_module/conf/key_text.hpp"
#include "nginx_module/io/nginx_world.hpp"
#include "nginx_module/util.hpp"

#include <memory>

namespace nginx_module {

namespace {

class RunningBackends final : public limiter::Backends {
  public:
    redis_client::Backend &of(const redis_client::BackendSettings &settings) override {
        return backend_of(settings);
    }
};

class WorkerLog final : public limiter::WorkerLog {
  public:
    void report(limiter::LeaseEvent event, uint64_t units, int64_t time_us) const override {
        switch (event) {
        case limiter::LeaseEvent::asked:
            ngx_log_debug1(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                           "redis_rate_limit asks for a lease of %uL units", units);
            break;
        case limiter::LeaseEvent::leased:
            ngx_log_debug2(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                           "redis_rate_limit has leased %uL units for %L us", units, time_us);
            break;
        case limiter::LeaseEvent::returned:
            ngx_log_debug1(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                           "redis_rate_limit gives back %uL leased units", units);
            break;
        }
    }

    std::string_view describe(std::span<const limiter::AppliedRule> rules,
                              std::span<char> out) const override {
        auto *const begin = reinterpret_cast<u_char *>(out.data());
        u_char *end = begin;
        for (const limiter::AppliedRule &applied : rules) {
            KeyPhrase key(*applied.rule->zone, applied.key);
            ngx_str_t name = to_ngx(applied.rule->name);
            end = ngx_slprintf(end, begin + out.size(), ", rule \"%V\"%V", &name, key.shown());
        }
        return {out.data(), static_cast<size_t>(end - begin)};
    }
};

/// What the worker refers to, and itself.
struct Process {
    explicit Process(const MainConf &conf) : world(conf) {}

    NginxWorld world;
    RunningBackends backends;
    WorkerLog log;
    limiter::Worker worker{world, backends, log};
};

std::unique_ptr<Process> &process() {
    static std::unique_ptr<Process> running;
    return running;
}

} // namespace

void start_worker(const MainConf &conf) {
    process() = std::make_unique<Process>(conf);
}

limiter::Worker &this_worker() {
    return process()->worker;
}

void stop_worker() {
    if (process() != nullptr) {
        process()->worker.leases.return_all();
    }
}

} // namespace nginx_module
