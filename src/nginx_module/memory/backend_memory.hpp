// A backend's shared memory: what all workers of this host count of it.
#pragma once

#include "../ngx.hpp"

#include "../../rate_limit/backend_counters.hpp"

#include <chrono>
#include <optional>

namespace nginx_module {

class BackendMemory {
  public:
    /// As ZoneMemory's.
    ngx_int_t attach(ngx_shm_zone_t *shared, const BackendMemory *old);
    static size_t size();

    rate_limit::BackendCounts read(std::chrono::microseconds now) const;
    /// When the counters began, as precise_now().
    std::chrono::microseconds began() const { return layout_->began; }

  private:
    friend class WorkerCounters;

    struct Layout {
        std::chrono::microseconds began;
        rate_limit::BackendCounters counters;
    };

    Layout *layout_ = nullptr;
};

/// One worker's hand on the counters of a backend. The worker has gauges of its own in the shared
/// memory for as long as this lives.
class WorkerCounters {
  public:
    explicit WorkerCounters(const BackendMemory &memory);
    ~WorkerCounters();
    WorkerCounters(const WorkerCounters &) = delete;
    WorkerCounters &operator=(const WorkerCounters &) = delete;

    void check_asked() { gauges_->check_asked(); }
    /// Nobody hears the check's answer.
    void check_abandoned() { gauges_->check_ended(); }
    /// The check was asked at that precise_now().
    void check_answered(std::optional<rate_limit::Failure> failure, std::chrono::microseconds asked,
                        std::chrono::microseconds now);
    void check_refused(rate_limit::Failure failure) { counters_.count_refusal(failure); }

    /// Of the one Redis that there is, or of a cluster's nodes.
    void connection_ready(bool is_first);
    /// The connection was ready before.
    void connection_lost() { gauges_->connection_lost(); }
    void connection_failed() { gauges_->connection_failed(); }
    void scripts_reloaded(uint64_t count) {
        counters_.count(rate_limit::BackendEvent::script_reload, count);
    }

  private:
    rate_limit::BackendCounters &counters_;
    rate_limit::WorkerGauges unseen_{}; // where the shared memory has no place for this worker
    rate_limit::WorkerGauges *gauges_;
};

} // namespace nginx_module
