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
    idle, // no attempt to connect has come to an end yet
    down, // no connection
    up,   // a connection that is ready
};

/// What one worker process says of the backend, as it is now. Only that process writes it.
class alignas(64) WorkerGauges {
  public:
    void check_asked() { add(pending_, 1); }
    void check_ended() { add(pending_, -1); }
    void connection_ready() { add(connections_, 1); }
    void connection_lost() { add(connections_, -1); }
    void connection_failed() { has_failed_.store(true, relaxed); }

    uint64_t pending() const { return pending_.load(relaxed); }
    BackendState state() const;

  private:
    friend class BackendCounters;
    static constexpr auto relaxed = std::memory_order_relaxed;
    using Gauge = std::atomic<uint64_t>;
    static void add(Gauge &gauge, int64_t difference) {
        gauge.store(gauge.load(relaxed) + static_cast<uint64_t>(difference), relaxed);
    }
    void reset();

    std::atomic<pid_t> process_; // 0: free
    std::atomic<bool> has_failed_;
    Gauge connections_; // that are ready
    Gauge pending_;
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
    Latencies recent_latency;
};

/// In memory that is all zeros at first.
class BackendCounters {
  public:
    /// A check that has ended at `now` after that time.
    void count_check(std::optional<Failure> failure, std::chrono::microseconds time,
                     std::chrono::microseconds now);
    /// A check that was not asked.
    void count_refusal(Failure failure);
    void count_reconnect() { add_one(reconnects_); }
    /// Scripts that Redis did not know any more.
    void count_script_reloads(uint64_t count) { script_reloads_.fetch_add(count, relaxed); }

    using IsAlive = bool (*)(pid_t process);

    /// For a new worker process, in the place of one that has ended. Null where all have a living
    /// one: then this worker's gauges are not told.
    WorkerGauges *claim_gauges(pid_t process, IsAlive is_alive);
    static void release_gauges(WorkerGauges &gauges);

    BackendCounts read(IsAlive is_alive, std::chrono::microseconds now) const;

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
    RecentLatencies recent_latency_;
    std::array<WorkerGauges, most_workers> workers_;
};

} // namespace rate_limit
