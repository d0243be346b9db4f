// Keeps up with a store of live limits: from the head of the store and from pages of changes it
// finds out what is to be done next, and what has changed.
//
// Mostly it reads the changes since the version that is known. In a full synchronisation it reads
// all records: on a new connection, which may lead to a Redis that has lost some; if the store is
// another one, or older than what is known; and if records may have been purged that nobody here
// has seen.
//
// A failover, or a restart from an older snapshot, may have cost the store its newest records. What
// the copy here has of them holds on: it is written back before the synchronisation ends. It takes
// more if the host knew more than the copy does, because another worker has read it: then what the
// host knows holds on until another host has written it back, or for good until there is a new
// write.
//
// Redis may have evicted a part of the store, or somebody may have written over it. What the store
// still has is then taken, and what it does not name any more holds on, until it is whole again. If
// it is gone altogether, nothing holds any more.
#pragma once

#include "redis_client/control/live_copy.hpp"
#include "redis_client/control/live_store.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace redis_client {

/// What a follower asks of Redis next.
struct LiveStep {
    enum class What : uint8_t {
        wait,       // nothing, until there is another head
        read,       // the changes since a version
        write_back, // to take records back: see LiveFollower::lost()
    };
    What what = What::wait;
    uint64_t since = 0; // of `read`
};

/// What is about to be read.
enum class LiveReading : uint8_t {
    of_store,
    of_older_store, // it lacks the newest of what the host obeys, which holds on
};

class LiveFollower {
  public:
    class Callbacks {
      public:
        /// A full synchronisation begins, perhaps anew: all records follow.
        virtual void on_begin(LiveReading reading) = 0;
        /// It ends: what it has not named holds no longer.
        virtual void on_end() = 0;
        virtual void on_change(const LiveChange &change) = 0;
        /// Clients may have been reset of which nobody here will hear.
        virtual void on_missed_resets() = 0;
        /// The store that was known is gone.
        virtual void on_lost_store() = 0;

      protected:
        ~Callbacks() = default;
    };

    explicit LiveFollower(Callbacks &callbacks) : callbacks_(callbacks) {}
    LiveFollower(const LiveFollower &) = delete;
    LiveFollower &operator=(const LiveFollower &) = delete;

    /// The next head begins a full synchronisation: `known` is what the host knew before.
    void begin_anew(LiveKnown known);
    /// Another worker follows from now on.
    void forget();

    /// These functions take what Redis has answered, and return what to ask at once.
    /// `looks_complete` says whether the store seems to be as LivePage::is_complete says; a page
    /// makes sure.
    LiveStep take_head(const std::optional<LiveHead> &head, bool looks_complete);
    LiveStep take_page(const LivePage &page);
    LiveStep take_written_back(bool is_same_store);

    /// What is to be written back into the store of this epoch, in a page of them.
    uint64_t epoch() const { return known_.epoch; }
    std::vector<LiveLost> lost() const { return copy_.missing(LiveStore::records_of_page); }

    /// Forgets a part of what ended long ago.
    void drop_ended(std::chrono::microseconds redis_now) { copy_.drop_ended(redis_now); }

    /// The most that the host has known of the store, as far as that still counts.
    LiveKnown known() const { return newest_; }
    /// Whether all that was set is in the store, as far as is known.
    bool is_whole() const { return is_whole_; }
    /// Whether the store has lost what the host knew, and nobody has written it back.
    bool has_lost_newest() const { return has_lost_newest_; }

  private:
    LiveStep begin(const std::optional<LiveHead> &head);
    LiveStep read_on();
    LiveStep end(const LivePage &page);
    LiveStep end_of_all(const LivePage &page);
    LiveStep end_of_changes();
    void end_of_lost_store();
    void note_damage(const LivePage &page);
    bool has_lost(const LiveHead &head) const;

    Callbacks &callbacks_;
    LiveCopy copy_;
    LiveKnown copied_;           // the copy has all up to this
    LiveKnown known_;            // what has been read for sure
    LiveKnown newest_;           // the most that the host has known
    bool needs_all_ = true;      // a full synchronisation is to begin, or all records are read
    bool ends_all_ = false;      // all were read, and the synchronisation is to end
    bool floor_changed_ = false; // while they were read
    uint64_t epoch_ = 0;         // of the store whose pages are read; 0: it has no head
    uint64_t since_ = 0;         // what the last page was asked for
    uint64_t floor_ = 0;         // of the store at the first page of a full synchronisation
    bool is_older_ = false;      // the store that is read: see LiveReading
    bool has_lost_newest_ = false;

    bool is_whole_ = true;
    bool is_readable_ = true;      // all records of the pages are, since the last head
    bool was_complete_ = true;     // when it was found not to be whole: see LivePage
    uint64_t damaged_version_ = 0; // the same
};

} // namespace redis_client
