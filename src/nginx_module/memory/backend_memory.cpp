#include "nginx_module/memory/backend_memory.hpp"

#include "nginx_module/memory/shared_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <new>

namespace nginx_module {

namespace {

bool is_alive(pid_t process) {
    return kill(process, 0) == 0 || errno == EPERM;
}

std::chrono::milliseconds claim_clock() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(precise_now());
}

} // namespace

size_t BackendMemory::size() {
    constexpr size_t with_room_for_nginx = 2 * sizeof(Layout);
    return std::max(with_room_for_nginx, 8 * ngx_pagesize);
}

ngx_int_t BackendMemory::attach(ngx_shm_zone_t *shared, const BackendMemory *old) {
    if (old != nullptr) {
        layout_ = old->layout_;
        return NGX_OK;
    }
    size_t size = 0;
    void *memory = take_shared_memory(shared, size);
    if (memory == nullptr) {
        return NGX_ERROR;
    }
    layout_ = new (memory) Layout{.began = precise_now(),
                                  .redis_clock = {},
                                  .sync_claim = {},
                                  .known_epoch = 0,
                                  .known_version = 0,
                                  .live_trouble = LiveTrouble::none,
                                  .counters = {}};
    return NGX_OK;
}

rate_limit::BackendCounts BackendMemory::read(std::chrono::microseconds now) const {
    return layout_->counters.read(is_alive, now);
}

bool BackendMemory::take_sync_claim() const {
    return layout_->sync_claim.take(ngx_pid, claim_clock(), is_alive);
}

bool BackendMemory::keep_sync_claim() const {
    return layout_->sync_claim.keep(ngx_pid, claim_clock());
}

void BackendMemory::release_sync_claim() const {
    layout_->sync_claim.release(ngx_pid);
}

redis_client::LiveKnown BackendMemory::known() const {
    return {.epoch = layout_->known_epoch.load(), .version = layout_->known_version.load()};
}

/// A worker may be killed in between. Then nothing of the epoch counts as known.
void BackendMemory::set_known(const redis_client::LiveKnown &known) const {
    layout_->known_version.store(0);
    layout_->known_epoch.store(known.epoch);
    layout_->known_version.store(known.version);
}

WorkerCounters::WorkerCounters(const BackendMemory &memory)
    : counters_(memory.layout_->counters), gauges_(counters_.claim_gauges(ngx_pid, is_alive)) {
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

} // namespace nginx_module
