// Numbers that processes share in a zone's memory.
#pragma once

#include <atomic>
#include <cstdint>

namespace rate_limit {

inline constexpr auto relaxed = std::memory_order_relaxed;
inline constexpr auto acquire = std::memory_order_acquire;
inline constexpr auto release = std::memory_order_release;
inline constexpr auto acquire_release = std::memory_order_acq_rel;

/// Makes `value` the largest known, unless a larger one is. With `release`, who sees it with
/// acquire sees all that this process has written before.
inline void raise(std::atomic<uint64_t> &largest, uint64_t value,
                  std::memory_order order = relaxed) {
    uint64_t known = largest.load(relaxed);
    while (known < value && !largest.compare_exchange_weak(known, value, order, relaxed)) {
    }
}

} // namespace rate_limit
