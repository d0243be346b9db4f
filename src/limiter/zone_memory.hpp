// A zone's shared memory: the tables and counters that all workers of a host use.
#pragma once

#include "rate_limit/metrics/rule_counters.hpp"
#include "rate_limit/tables/deny_cache.hpp"
#include "rate_limit/tables/lease_book.hpp"
#include "rate_limit/tables/live_limits.hpp"
#include "rate_limit/tables/shared_table.hpp"
#include "rate_limit/tables/top_keys.hpp"
#include "rate_limit/text/hash.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace limiter {

/// The lock of a zone's local table, which all processes of the host respect. If a process dies
/// that holds it, somebody has to release it.
class ZoneMutex {
  public:
    virtual void lock() const = 0;
    virtual void unlock() const = 0;

  protected:
    ~ZoneMutex() = default;
};

class ZoneMemory {
  public:
    /// Lays the tables out in memory that is all zeros, of at least 7 pages, aligned as a line of
    /// the cache. `zone_size` is the size that the configuration says, and `began` is a time of
    /// World::precise_now().
    void begin(std::span<std::byte> memory, const ZoneMutex &mutex, size_t zone_size,
               const rate_limit::HashSeed &seed, std::chrono::microseconds began);
    /// Takes over the memory of the same zone in the configuration before. Old workers go on using
    /// it, so nothing is reset.
    void take_over(const ZoneMemory &old, const ZoneMutex &mutex);

    /// How many rules a zone of that size, in bytes, has room to count; and the size for so many.
    static size_t most_rules(size_t zone_size);
    static size_t size_for(size_t rules);

    const rate_limit::HashSeed &seed() const { return layout_->seed; }
    rate_limit::DenyCache deny_cache() const { return deny_cache_; }
    /// Its times are those of World::boot_now().
    const rate_limit::LeaseBook &lease_book() const { return lease_book_; }
    /// What operators have set while the host runs.
    const rate_limit::LiveLimits &live_limits() const { return live_limits_; }
    rate_limit::RuleCounterTable rule_counters() const { return rule_counters_; }
    rate_limit::TopKeys top_keys() const { return top_keys_; }

    /// What clients have taken, for the time when Redis gives no verdict. It must be read and
    /// written under the lock.
    rate_limit::SharedTable local_table() const { return local_table_; }
    /// Several zones must be locked in the order of this value, which is the same in all processes
    /// of the host.
    const void *lock_order() const { return layout_; }
    void lock() const { mutex_->lock(); }
    void unlock() const { mutex_->unlock(); }

    /// Counts a denial, or a record of that table, that had to make room while it was still valid.
    void count_eviction() const { layout_->evictions.fetch_add(1, std::memory_order_relaxed); }
    uint64_t evictions() const { return layout_->evictions.load(std::memory_order_relaxed); }
    /// How many records of all tables are valid now, roughly; and how many bytes are unused. The
    /// times are of precise_now() and boot_now().
    size_t entries(std::chrono::microseconds now, std::chrono::microseconds boot_now) const;
    size_t free_bytes(std::chrono::microseconds now, std::chrono::microseconds boot_now) const;
    /// Called when the configuration has come into force: a reload may fail after take_over().
    void set_latest() const { layout_->latest.store(number_, std::memory_order_relaxed); }
    /// Whether no newer configuration uses the memory.
    bool is_latest() const { return layout_->latest.load(std::memory_order_relaxed) == number_; }
    /// Returns when the counters began, as a time of precise_now().
    std::chrono::microseconds began() const { return layout_->began; }

  private:
    /// What is at the beginning of the memory; the tables follow.
    struct Layout {
        rate_limit::HashSeed seed;
        std::chrono::microseconds began;
        std::atomic<uint64_t> evictions;
        std::atomic<uint64_t> latest; // the number of the configuration that is in force
        size_t rule_counters_size;
        size_t deny_cache_size;
        size_t lease_book_size;
        size_t live_limits_size;
        size_t local_table_size;
        alignas(rate_limit::SharedTable::Tags) std::byte tables[];
    };

    void map();

    const ZoneMutex *mutex_ = nullptr;
    Layout *layout_ = nullptr;
    uint64_t number_ = 1; // of this configuration among those that have used the memory
    rate_limit::RuleCounterTable rule_counters_;
    rate_limit::TopKeys top_keys_;
    rate_limit::DenyCache deny_cache_;
    rate_limit::LeaseBook lease_book_;
    rate_limit::LiveLimits live_limits_;
    rate_limit::SharedTable local_table_;
};

} // namespace limiter
