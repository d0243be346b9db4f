// Keeps up with a store of live limits: from the head of the store and from pages of changes it
// finds out what is to be asked next, and what has changed.
//
// Mostly these are the changes since the version that is known. In a full synchronisation it is all
// records: on a new connection, which may lead to a Redis that has lost some; if the store is
// another one, or older than what is known; and if records may have been purged that nobody here
// has seen.
//
// Redis may have evicted a part of the store, or somebody may have written over it. What the store
// still has is then taken, and what it does not name any more holds on, until it is whole again. If
// it is gone altogether, nothing holds any more.
#pragma once

#include "redis_client/control/live_store.hpp"

#include <cstdint>
#include <optional>

namespace redis_client {

/// How much of a store a host knows. An epoch of 0 is no store.
struct LiveKnown {
    uint64_t epoch = 0;
    uint64_t version = 0;

    bool operator==(const LiveKnown &) const = default;
};

class LiveFollower {
  public:
    class Callbacks {
      public:
        /// A full synchronisation begins, perhaps anew: all records follow.
        virtual void on_begin() = 0;
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

    /// These two functions take what Redis has answered, and return the version since which
    /// changes are to be asked at once, or nothing until there is another head. `looks_complete`
    /// says whether the store seems to be as LivePage::is_complete says; a page makes sure.
    std::optional<uint64_t> take_head(const std::optional<LiveHead> &head, bool looks_complete);
    std::optional<uint64_t> take_page(const LivePage &page);

    /// What is known for sure.
    LiveKnown known() const { return known_; }
    /// Whether all that was set is in the store, as far as is known.
    bool is_whole() const { return is_whole_; }

  private:
    std::optional<uint64_t> begin(const std::optional<LiveHead> &head);
    uint64_t go_on_from_known();
    std::optional<uint64_t> end(const LivePage &page);
    std::optional<uint64_t> end_of_all(const LivePage &page);
    void end_of_lost_store();
    void note_damage(const LivePage &page);
    bool has_lost(const LiveHead &head) const;

    Callbacks &callbacks_;
    LiveKnown known_;
    bool needs_all_ = true; // a full synchronisation is to begin, or to end
    uint64_t epoch_ = 0;    // of the store whose pages are read; 0: it has no head
    uint64_t since_ = 0;    // what the last page was asked for
    uint64_t floor_ = 0;    // of the store at the first page of a full synchronisation

    bool is_whole_ = true;
    bool is_readable_ = true;      // all records of the pages are, since the last head
    bool was_complete_ = true;     // when it was found not to be whole: see LivePage
    uint64_t damaged_version_ = 0; // the same
};

} // namespace redis_client
