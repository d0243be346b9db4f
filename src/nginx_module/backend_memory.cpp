#include "backend_memory.hpp"

#include "shared_memory.hpp"
#include "util.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <new>
#include <utility>

namespace nginx_module {

namespace {

bool is_alive(pid_t process) {
    return kill(process, 0) == 0 || errno == EPERM;
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
    layout_ = new (memory) Layout{.began = precise_now(), .counters = {}};
    return NGX_OK;
}

void BackendMemory::claim_gauges() {
    if (auto *gauges = layout_->counters.claim_gauges(ngx_pid, is_alive)) {
        gauges_ = gauges;
    }
}

void BackendMemory::release_gauges() {
    if (gauges_ != &untold_) {
        rate_limit::BackendCounters::release_gauges(*std::exchange(gauges_, &untold_));
    }
}

void BackendMemory::check_answered(std::optional<rate_limit::Failure> failure,
                                   std::chrono::microseconds asked,
                                   std::chrono::microseconds now) const {
    gauges_->check_ended();
    layout_->counters.count_check(failure, now - asked, now);
}

void BackendMemory::check_refused(rate_limit::Failure failure) const {
    layout_->counters.count_refusal(failure);
}

void BackendMemory::connection_ready(bool is_first) const {
    gauges_->connection_ready();
    if (!is_first) {
        layout_->counters.count(rate_limit::BackendEvent::reconnect);
    }
}

rate_limit::BackendCounts BackendMemory::read(std::chrono::microseconds now) const {
    return layout_->counters.read(is_alive, now);
}

} // namespace nginx_module
