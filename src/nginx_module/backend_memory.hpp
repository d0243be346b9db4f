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

    void count_asked() { gauges_->add_pending(); }
    void count_abandoned() { gauges_->remove_pending(); } // before it was sent
    void count_answered(std::optional<rate_limit::Failure> failure, std::chrono::microseconds time);
    void count_refused(rate_limit::Failure failure) { layout_->counters.count_refusal(failure); }

    rate_limit::BackendCounts read() const;
    /// When the counters began, as precise_now().
    std::chrono::microseconds began() const { return layout_->began; }

  private:
    struct Layout {
        std::chrono::microseconds began;
        rate_limit::BackendCounters counters;
    };

    Layout *layout_ = nullptr;
    rate_limit::WorkerGauges untold_{}; // of a worker for which there is no place
    rate_limit::WorkerGauges *gauges_ = &untold_;
};

} // namespace nginx_module
