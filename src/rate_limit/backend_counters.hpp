// What became of a backend's checks, and how it is now, in memory that many processes share.
#pragma once

#include "failure.hpp"
#include "latency.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <sys/types.h>

namespace rate_limit {

enum class BackendState : uint8_t {
    idle, // nobody has tried to connect yet
    down, // no connection
    up,   // a connection that is ready
};

/// What one worker process says of the backend, as it is now. Only that process writes it.
class alignas(64) WorkerGauges {
  public:
    void set_state(BackendState state) { state_.store(state, std::memory_order_relaxed); }
    void add_pending() { set_pending(pending() + 1); }
    void remove_pending() { set_pending(pending() - 1); }

    BackendState state() const { return state_.load(std::memory_order_relaxed); }
    uint64_t pending() const { return pending_.load(std::memory_order_relaxed); }

  private:
    friend class BackendCounters;
    void set_pending(uint64_t count) { pending_.store(count, std::memory_order_relaxed); }

    std::atomic<pid_t> process_; // 0: free
    std::atomic<BackendState> state_;
    std::atomic<uint64_t> pending_;
};

/// A copy of the counters, and the gauges of all workers together.
struct BackendCounts {
    BackendState state = BackendState::idle; // of the worker that has it best
    uint64_t checks = 0;
    std::array<uint64_t, failure_count> errors{};
    uint64_t reconnects = 0;
    uint64_t script_reloads = 0;
    uint64_t pending = 0;
    Latencies latency; // of checks that were asked: those not even asked took no time
};

/// In memory that is all zeros at first.
class BackendCounters {
  public:
    /// A check that has ended after that time.
    void count_check(std::optional<Failure> failure, std::chrono::microseconds time);
    /// A check that was not asked.
    void count_refusal(Failure failure);
    void count_reconnect() { add_one(reconnects_); }
    void count_script_reloads(uint64_t count) { script_reloads_.fetch_add(count, relaxed); }

    using IsAlive = bool (*)(pid_t process);

    /// For a new worker process, in the place of one that has ended. Null where all have a living
    /// one: then this worker's gauges are not told.
    WorkerGauges *claim_gauges(pid_t process, IsAlive is_alive);
    static void release_gauges(WorkerGauges &gauges);

    BackendCounts read(IsAlive is_alive) const;

    static constexpr size_t most_workers = 448;

  private:
    using Counter = std::atomic<uint64_t>;
    static constexpr auto relaxed = std::memory_order_relaxed;
    static void add_one(Counter &counter) { counter.fetch_add(1, relaxed); }

    Counter checks_;
    std::array<Counter, failure_count> errors_;
    Counter reconnects_;
    Counter script_reloads_;
    LatencyHistogram latency_;
    std::array<WorkerGauges, most_workers> workers_;
};

static_assert(sizeof(BackendCounters) < 31 * 1024);

} // namespace rate_limit
