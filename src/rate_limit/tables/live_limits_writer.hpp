// Writes what Redis knows of a zone's overrides and resets into its LiveLimits. One process of the
// host does so at a time: the one that asks Redis.
//
// A full synchronisation is a generation: begin_generation(), set() for all that Redis has,
// end_generation(), after which nothing of an older generation holds. Between two of them changes
// are set one by one.
//
// The process may be killed anywhere, and the next one then begins with a generation of its own. It
// may also be stopped for so long that the next one has begun, and go on. It then writes no more:
// it is superseded. But it may have been stopped in the middle of a write, and end that between
// what the next one writes. So each write looks afterwards whether it was superseded, and says so
// in the memory: the next one learns from needs_generation() that it has to begin anew.
#pragma once

#include "rate_limit/tables/live_limits.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rate_limit {

class LiveLimitsWriter {
  public:
    /// What becomes of an override that holds and is newer than the one to be set.
    enum class Newer : uint8_t {
        replaced,
        kept, // Redis has lost it: it holds until a generation ends that does not have it
    };

    /// Writes nothing before begin_generation().
    explicit LiveLimitsWriter(const LiveLimits &limits) : limits_(limits) {}

    void begin_generation(Newer newer = Newer::replaced);
    void end_generation();
    /// Whether all has to be synchronised anew, because a process that was stopped has written
    /// since.
    bool needs_generation() const;
    /// Whether a generation may find room for overrides that were dropped, because others have gone
    /// since this one began.
    bool may_have_room_for_dropped() const;

    /// Sets an override, or removes it if it has expired. Returns false if there is no room: then
    /// it is dropped, which is counted, and does not hold on this host. `version` says which of two
    /// is newer.
    bool set(const OverrideTarget &target, const Override &what,
             std::chrono::microseconds redis_now, uint64_t version = 0);
    void remove(const OverrideTarget &target, uint64_t version = 0);
    /// The client was reset. `version` names the reset, so that it counts once. One that is lower
    /// than the last is of a Redis that had not heard of that one. `now` is the time of
    /// precise_now().
    void reset(std::string_view encoded_key, uint64_t version, std::chrono::microseconds now);
    /// All clients count as reset, because resets may have been missed.
    void reset_all(std::chrono::microseconds now);
    /// Removes overrides that have expired, so that they take no room and are not counted. It does
    /// a bounded part of that, and the next call goes on. Returns how many buckets it looked at.
    size_t remove_expired(std::chrono::microseconds redis_now);

  private:
    LiveLimits::Header &header() const { return *limits_.header_; }
    bool is_superseded() const;
    bool has_newer(const Hash &identity, uint64_t version) const;
    bool store(const Hash &identity, const Override &what, uint64_t version);
    void erase(const Hash &identity);
    bool is_valid() const { return header().valid_generation.load(relaxed) == generation_; }
    void publish_count();
    void look_for_damage() const;

    LiveLimits limits_;
    Newer newer_ = Newer::replaced;
    uint64_t generation_ = 0;    // this one's last; 0: it has begun none
    uint64_t count_ = 0;         // overrides of that generation
    bool has_dropped_ = false;   // an override of that generation
    bool has_made_room_ = false; // an override has gone since the generation began
    // Overrides that hold and are not set again yet, in a generation that looks for room. They keep
    // their places.
    uint64_t to_keep_ = 0;
    size_t next_bucket_ = 0; // where remove_expired() goes on
};

} // namespace rate_limit
