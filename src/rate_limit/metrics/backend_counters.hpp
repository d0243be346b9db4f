// Counters of a backend's checks and events, and gauges of its present state, in memory that many
// processes share.
#pragma once

#include "rate_limit/enum_table.hpp"
#include "rate_limit/memory_order.hpp"
#include "rate_limit/metrics/latency.hpp"
#include "rate_limit/rule/verdict.hpp"
#include "rate_limit/tables/machine.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <sys/types.h>

namespace rate_limit {

enum class BackendState : uint8_t {
    idle, // no attempt to connect has ended yet
    down, // there is no connection, and an attempt has failed
    up,   // a connection is ready
};

/// How one worker process sees the backend now. Only that process writes it.
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
    using Gauge = std::atomic<uint64_t>;
    static void add(Gauge &gauge, int64_t difference) {
        gauge.store(gauge.load(relaxed) + static_cast<uint64_t>(difference), relaxed);
    }
    void reset();

    std::atomic<pid_t> process_; // it is 0 if these gauges belong to nobody
    std::atomic<bool> has_failed_;
    Gauge connections_; // only those that are ready
    Gauge pending_;
};

/// What happens to a backend beside its checks, and is counted. A new counter is a value here, and
/// a row of the table.
enum class BackendEvent : uint8_t {
    reconnect,     // a connection that came after a worker's first one
    script_reload, // a script that Redis did not know any more
};

struct BackendEventTraits {
    BackendEvent event;
    std::string_view name; // in JSON; for Prometheus it becomes backend_<name>_total
    std::string_view help; // for Prometheus, which does not get the counter if there is none
};

inline constexpr std::array backend_event_table = {
    BackendEventTraits{.event = BackendEvent::reconnect,
                       .name = "reconnects",
                       .help = "Connections that came after a worker's first one."},
    BackendEventTraits{.event = BackendEvent::script_reload, .name = "script_reloads", .help = ""},
};
static_assert(is_in_order(backend_event_table, &BackendEventTraits::event));

/// A copy of the counters, and the gauges of all workers together.
struct BackendCounts {
    BackendState state = BackendState::idle; // the best that any worker has
    uint64_t checks = 0;
    std::array<uint64_t, failure_names.size()> errors{};       // by Failure
    std::array<uint64_t, backend_event_table.size()> events{}; // by BackendEvent
    uint64_t pending = 0;
    Latencies latency; // of the checks that were sent
    Latencies recent_latency;
};

/// They live in memory that is all zeros at first.
class BackendCounters {
  public:
    /// Counts a check that was sent, and ended at `now` after `time`.
    void count_check(std::optional<Failure> failure, std::chrono::microseconds time,
                     std::chrono::microseconds now);
    /// Counts a check that was not sent.
    void count_refusal(Failure failure);
    void count(BackendEvent event, uint64_t times = 1) {
        events_[static_cast<size_t>(event)].fetch_add(times, relaxed);
    }

    /// Returns gauges for a new worker process: those of nobody, or of a process that has ended.
    /// Returns null if living processes have all of them; then this worker has no gauges.
    WorkerGauges *claim_gauges(pid_t process, const Machine &machine);
    static void release_gauges(WorkerGauges &gauges);

    BackendCounts read(const Machine &machine, std::chrono::microseconds now) const;

    static constexpr size_t most_workers = 448;

  private:
    using Counter = std::atomic<uint64_t>;
    static void add_one(Counter &counter) { counter.fetch_add(1, relaxed); }

    Counter checks_;
    std::array<Counter, failure_names.size()> errors_;
    std::array<Counter, backend_event_table.size()> events_;
    LatencyHistogram latency_;
    RecentLatencies recent_latency_;
    std::array<WorkerGauges, most_workers> workers_;
};

} // namespace rate_limit
