#include "rate_limit/metrics/backend_counters.hpp"

#include <algorithm>

namespace rate_limit {

BackendState WorkerGauges::state() const {
    if (connections_.load(relaxed) > 0) {
        return BackendState::up;
    }
    return has_failed_.load(relaxed) ? BackendState::down : BackendState::idle;
}

void WorkerGauges::reset() {
    has_failed_.store(false, relaxed);
    connections_.store(0, relaxed);
    pending_.store(0, relaxed);
}

void BackendCounters::count_check(std::optional<Failure> failure, std::chrono::microseconds time,
                                  std::chrono::microseconds now) {
    add_one(checks_);
    if (failure) {
        add_one(errors_[static_cast<size_t>(*failure)]);
    }
    latency_.add(time);
    recent_latency_.add(time, now);
}

void BackendCounters::count_refusal(Failure failure) {
    add_one(checks_);
    add_one(errors_[static_cast<size_t>(failure)]);
}

WorkerGauges *BackendCounters::claim_gauges(pid_t process, const Machine &machine) {
    for (WorkerGauges &gauges : workers_) {
        pid_t owner = gauges.process_.load(relaxed);
        if ((owner == 0 || owner == process || !machine.is_alive(owner)) &&
            gauges.process_.compare_exchange_strong(owner, process, relaxed)) {
            gauges.reset();
            return &gauges;
        }
    }
    return nullptr;
}

void BackendCounters::release_gauges(WorkerGauges &gauges) {
    gauges.process_.store(0, relaxed);
}

BackendCounts BackendCounters::read(const Machine &machine, std::chrono::microseconds now) const {
    BackendCounts counts;
    counts.checks = checks_.load(relaxed);
    for (size_t i = 0; i < counts.errors.size(); ++i) {
        counts.errors[i] = errors_[i].load(relaxed);
    }
    for (size_t i = 0; i < counts.events.size(); ++i) {
        counts.events[i] = events_[i].load(relaxed);
    }
    counts.latency = latency_.read();
    counts.recent_latency = recent_latency_.read(now);
    for (const WorkerGauges &gauges : workers_) {
        const pid_t owner = gauges.process_.load(relaxed);
        if (owner != 0 && machine.is_alive(owner)) {
            counts.state = std::max(counts.state, gauges.state());
            counts.pending += gauges.pending();
        }
    }
    return counts;
}

} // namespace rate_limit
