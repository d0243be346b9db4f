// A backend's shared memory: what the workers of this host say of it together.
#pragma once

#include "ngx.hpp"

#include "../rate_limit/backend_counters.hpp"

#include <chrono>
#include <optional>

namespace nginx_module {

class BackendMemory {
  public:
    /// As ZoneMemory's.
    ngx_int_t attach(ngx_shm_zone_t *shared, const BackendMemory *old);
    static size_t size();

    /// At a worker's start and at its end.
    void claim_gauges();
    void release_gauges();

    void check_asked() const { gauges_->check_asked(); }
    void check_abandoned() const { gauges_->check_ended(); } // and nobody hears its answer
    /// It was asked at that precise_now().
    void check_answered(std::optional<rate_limit::Failure> failure, std::chrono::microseconds asked,
                        std::chrono::microseconds now) const;
    void check_refused(rate_limit::Failure failure) const;

    /// Of the one Redis that there is, or of a cluster's nodes.
    void connection_ready(bool is_first) const;
    void connection_lost() const { gauges_->connection_lost(); } // that was ready
    void connection_failed() const { gauges_->connection_failed(); }
    void scripts_reloaded(uint64_t count) const {
        layout_->counters.count(rate_limit::BackendEvent::script_reload, count);
    }

    rate_limit::BackendCounts read(std::chrono::microseconds now) const;
    /// When the counters began, as precise_now().
    std::chrono::microseconds began() const { return layout_->began; }

  private:
    struct Layout {
        std::chrono::microseconds began;
        rate_limit::BackendCounters counters;
    };

    rate_limit::WorkerGauges untold_{}; // of a worker for which there is no place
    rate_limit::WorkerGauges *gauges_ = &untold_;
    Layout *layout_ = nullptr;
};

} // namespace nginx_module
