#include "redis_client/link/backend_memory.hpp"

#include <new>

namespace redis_client {

namespace {

std::chrono::milliseconds claim_time(const World &world) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(world.precise_now());
}

} // namespace

void BackendMemory::lay_out(void *memory, std::chrono::microseconds precise_now) {
    layout_ = new (memory) Layout{.began = precise_now,
                                  .redis_clock = {},
                                  .sync_claim = {},
                                  .known_epoch = 0,
                                  .known_version = 0,
                                  .live_trouble = LiveTrouble::none,
                                  .counters = {}};
}

rate_limit::BackendCounts BackendMemory::read(const rate_limit::Machine &machine,
                                              std::chrono::microseconds now) const {
    return layout_->counters.read(machine, now);
}

bool BackendMemory::take_sync_claim(const World &world) const {
    return layout_->sync_claim.take(world.process(), claim_time(world), world);
}

bool BackendMemory::keep_sync_claim(const World &world) const {
    return layout_->sync_claim.keep(world.process(), claim_time(world));
}

LiveKnown BackendMemory::known() const {
    return {.epoch = layout_->known_epoch.load(), .version = layout_->known_version.load()};
}

/// A worker may be killed in between. Then nothing of the epoch counts as known.
void BackendMemory::set_known(const LiveKnown &known) const {
    layout_->known_version.store(0);
    layout_->known_epoch.store(known.epoch);
    layout_->known_version.store(known.version);
}

WorkerCounters::WorkerCounters(const BackendMemory &memory, const World &world)
    : counters_(memory.layout_->counters), gauges_(counters_.claim_gauges(world.process(), world)) {
    if (gauges_ == nullptr) {
        gauges_ = &unseen_;
    }
}

WorkerCounters::~WorkerCounters() {
    if (gauges_ != &unseen_) {
        rate_limit::BackendCounters::release_gauges(*gauges_);
    }
}

void WorkerCounters::check_answered(std::optional<rate_limit::Failure> failure,
                                    std::chrono::microseconds asked,
                                    std::chrono::microseconds now) {
    constexpr int of_the_last = 8; // an eighth of the average is that of the last check
    gauges_->check_ended();
    counters_.count_check(failure, now - asked, now);
    round_trip_ += (now - asked - round_trip_) / of_the_last;
}

void WorkerCounters::connection_ready(bool is_first) {
    gauges_->connection_ready();
    if (!is_first) {
        counters_.count(rate_limit::BackendEvent::reconnect);
    }
}

} // namespace redis_client
