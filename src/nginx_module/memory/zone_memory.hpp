// A zone's shared memory: what the workers of this host know together.
#pragma once

#include "../ngx.hpp"

#include "../../rate_limit/deny_table.hpp"
#include "../../rate_limit/hash.hpp"
#include "../../rate_limit/rule_counters.hpp"
#include "../../rate_limit/shared_table.hpp"
#include "../../rate_limit/top_keys.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace nginx_module {

class ZoneMemory {
  public:
    /// Called when nginx has mapped the memory; `old` is the zone of the configuration before,
    /// whose memory this is, or null. Old workers go on using it: nothing is reset. NGX_OK or
    /// NGX_ERROR.
    ngx_int_t attach(ngx_shm_zone_t *shared, const ZoneMemory *old);

    /// Whose counters a zone of that size has room for, and the size for so many.
    static size_t most_rules(size_t zone_size);
    static size_t size_for(size_t rules);

    const rate_limit::HashSeed &seed() const { return layout_->seed; }
    rate_limit::DenyTable deny_table() const { return deny_table_; }
    rate_limit::RuleCounterTable rule_counters() const { return rule_counters_; }
    rate_limit::TopKeys top_keys() const { return top_keys_; }

    /// What clients have taken, for when Redis gives no verdict. To be read and written under the
    /// lock. nginx takes a lock from a worker that dies.
    rate_limit::SharedTable local_table() const { return local_table_; }
    /// Several are locked in the order of this, which is the same in all processes of the host.
    const void *lock_order() const { return pool_; }
    void lock() const { ngx_shmtx_lock(&pool_->mutex); }
    void unlock() const { ngx_shmtx_unlock(&pool_->mutex); }

    /// A record of either table had to make room while it still held.
    void count_eviction() const { layout_->evictions.fetch_add(1, std::memory_order_relaxed); }
    uint64_t evictions() const { return layout_->evictions.load(std::memory_order_relaxed); }
    /// How many records there are at that precise_now(), nearly, and how many there may be.
    size_t entries(std::chrono::microseconds now) const;
    size_t capacity() const;
    /// When its counters began, as precise_now().
    std::chrono::microseconds began() const { return layout_->began; }

  private:
    /// At the beginning of the memory.
    struct Layout {
        rate_limit::HashSeed seed;
        std::chrono::microseconds began;
        std::atomic<uint64_t> evictions;
        size_t rule_counters_size;
        size_t deny_table_size;
        size_t local_table_size;
        alignas(rate_limit::SharedTable::Tags) std::byte tables[];
    };

    void map(ngx_slab_pool_t *pool, Layout *layout);

    ngx_slab_pool_t *pool_ = nullptr;
    Layout *layout_ = nullptr;
    rate_limit::RuleCounterTable rule_counters_;
    rate_limit::TopKeys top_keys_;
    rate_limit::DenyTable deny_table_;
    rate_limit::SharedTable local_table_;
};

} // namespace nginx_module
