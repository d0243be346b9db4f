// A backend's shared memory: the counters of all workers of this host, and what they know together
// of the live limits that this Redis has. Times without a word of another clock are of a clock that
// never steps back: World::precise_now().
#pragma once

#include "rate_limit/memory_order.hpp"
#include "rate_limit/metrics/backend_counters.hpp"
#include "rate_limit/tables/process_claim.hpp"
#include "redis_client/control/live_follower.hpp"
#include "redis_client/io/world.hpp"

#include <atomic>
#include <chrono>
#include <optional>

namespace redis_client {

/// Why what operators set does not reach this host.
enum class LiveTrouble : uint8_t {
    none,
    refused, // Redis refuses a command
    damaged, // a part of what they set is lost in Redis, or cannot be read
    older,   // Redis has lost the newest of what they set, and no host has it: a new write ends it
    late,    // for a while nobody of this host has learned all of it
};

/// It is a pointer to memory, which outlives it: copies are of the same memory.
class BackendMemory {
  public:
    /// How much memory it takes.
    static size_t size() { return sizeof(Layout); }
    /// Lays it out in shared memory, which is all zeros.
    void lay_out(void *memory, std::chrono::microseconds precise_now);

    rate_limit::BackendCounts read(const rate_limit::Machine &machine,
                                   std::chrono::microseconds now) const;
    /// Returns when the counters began, as a time of precise_now().
    std::chrono::microseconds began() const { return layout_->began; }

    /// Returns the time of Redis's clock, as far as this host knows it. Before the first time that
    /// Redis told it, that is 0 at some time in the past.
    std::chrono::microseconds redis_now(std::chrono::microseconds precise_now) const {
        return precise_now + layout_->redis_clock.load(rate_limit::relaxed);
    }
    /// Redis told its time in answer to a question that was asked then, by precise_now().
    void set_redis_clock(std::chrono::microseconds redis_time,
                         std::chrono::microseconds asked) const {
        layout_->redis_clock.store(redis_time - asked, rate_limit::relaxed);
    }

    // One worker of the host asks Redis for changes of live limits. These functions say whether it
    // is this one: see ProcessClaim.
    bool take_sync_claim(const World &world) const;
    bool keep_sync_claim(const World &world) const;
    void release_sync_claim(const World &world) const {
        layout_->sync_claim.release(world.process());
    }

    /// How much of Redis's live limits the zones of this host have, or have had before Redis lost
    /// it. Only the worker that has the claim sets it.
    LiveKnown known() const;
    void set_known(const LiveKnown &known) const;

    /// Whether this host follows the live limits.
    LiveTrouble live_trouble() const { return layout_->live_trouble.load(rate_limit::relaxed); }
    /// Whether what operators set from now on reaches this host.
    bool follows_writes() const {
        const LiveTrouble trouble = live_trouble();
        return trouble == LiveTrouble::none || trouble == LiveTrouble::older;
    }
    /// Returns false if it was the same before. Only the worker that has the claim sets it.
    bool set_live_trouble(LiveTrouble trouble) const {
        return layout_->live_trouble.exchange(trouble, rate_limit::relaxed) != trouble;
    }

  private:
    friend class WorkerCounters;

    struct Layout {
        std::chrono::microseconds began;
        std::atomic<std::chrono::microseconds> redis_clock; // what it is ahead of precise_now()
        rate_limit::ProcessClaim sync_claim;
        std::atomic<uint64_t> known_epoch;
        std::atomic<uint64_t> known_version;
        std::atomic<LiveTrouble> live_trouble;
        rate_limit::BackendCounters counters;
    };

    Layout *layout_ = nullptr;
};

/// Counts one worker's events in a backend's shared memory. The worker has gauges of its own there
/// for as long as this object lives.
class WorkerCounters {
  public:
    WorkerCounters(const BackendMemory &memory, const World &world);
    ~WorkerCounters();
    WorkerCounters(const WorkerCounters &) = delete;
    WorkerCounters &operator=(const WorkerCounters &) = delete;

    void check_asked() { gauges_->check_asked(); }
    /// The check has its answer, or has failed. Times are of precise_now().
    void check_answered(std::optional<rate_limit::Failure> failure, std::chrono::microseconds asked,
                        std::chrono::microseconds now);
    void check_refused(rate_limit::Failure failure) { counters_.count_refusal(failure); }
    /// Returns how long a check of this worker has taken lately, roughly.
    std::chrono::microseconds round_trip() const { return round_trip_; }

    /// A connection is ready, to the one Redis or to a node of the cluster. If it is not the first
    /// one there, it counts as a reconnect.
    void connection_ready(bool is_first);
    /// A connection is lost that was ready.
    void connection_lost() { gauges_->connection_lost(); }
    void connection_failed() { gauges_->connection_failed(); }
    void scripts_reloaded(uint64_t count) {
        counters_.count(rate_limit::BackendEvent::script_reload, count);
    }

  private:
    rate_limit::WorkerGauges unseen_{}; // used if there is no place for this worker
    rate_limit::BackendCounters &counters_;
    rate_limit::WorkerGauges *gauges_;
    std::chrono::microseconds round_trip_{0};
};

} // namespace redis_client
