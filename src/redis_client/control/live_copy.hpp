// A copy of the records of a store, so that a store that loses some, as by a failover, can be given
// them back.
//
// It takes what is read. Before all records are read anew, each is missing, until it is read. Those
// that stay so were purged, or are lost: see drop_purged(). A record that is older than the one
// that is known is not taken, and the known one is missing.
//
// A tombstone, a reset and an expired override are kept for an hour after they ended, for an older
// store may have what they have replaced.
#pragma once

#include "redis_client/control/live_store.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace redis_client {

class LiveCopy {
  public:
    /// All records are to be read.
    void begin_reading();
    /// Returns false if a newer record of that name is known.
    bool take(const LiveChange &change);
    /// All have been read, and the store may have purged records up to a version: those of what is
    /// missing are not lost.
    void drop_purged(uint64_t floor);

    bool is_any_missing() const { return !missing_.empty(); }
    /// Returns what is missing, `most` of them at most. It refers to this copy.
    std::vector<LiveLost> missing(size_t most) const;
    /// The store has got what missing() returns, unless it knew better.
    void wrote_back(size_t most);

    /// Drops some of those that ended an hour ago, of so many names that no call takes long.
    void drop_ended(std::chrono::microseconds redis_now);
    void clear();
    size_t size() const { return present_.size() + missing_.size(); }

  private:
    struct Known {
        uint64_t version;                   // as which it was written
        std::chrono::microseconds ended_at; // 0: never
        std::string words;
    };
    using Records = std::map<std::string, Known, std::less<>>; // by names

    Records present_;
    Records missing_;
    std::string looked_up_to_; // the last name at which drop_ended() looked
};

} // namespace redis_client
