// The counters of a client that a reset deletes, in portions of which each is one command. How many
// they are is up to all who write to Redis: nothing here takes more than a bounded time at once.
#pragma once

#include "redis_client/wire/byte_queue.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace redis_client {

/// Whose counters are deleted.
struct CounterOwner {
    std::string_view prefix; // of the backend's keys
    std::string_view zone;
    std::string_view encoded_key;
};

/// The counters of a rule of some host.
struct CounterToDelete {
    std::string name; // as rate_limit::counter_name() gives it
    uint64_t shards = 1;
    bool is_left = false; // at least one of its keys was not deleted

    bool is_same(const CounterToDelete &other) const {
        return shards == other.shards && name == other.name;
    }
};

/// Some counters, one shard of each. All of their keys have one hash tag, and so do the blocks that
/// stand beside them.
struct CounterPortion {
    static constexpr size_t most_counters = 16;

    std::span<CounterToDelete> counters;
    uint64_t shard = 0;

    /// A counter has a key of its own and that of a block. Which rules of other hosts block is not
    /// known.
    size_t key_count() const { return 2 * counters.size(); }
};

class CounterDeletion {
  public:
    static constexpr size_t most_counters = 4096;

    /// Adds a counter. A name that is none of ours is left out. Returns false if there are too
    /// many.
    bool add(std::string_view name, uint64_t shards);
    /// All have been added, some perhaps twice.
    void begin();
    /// Returns the next counters to be deleted, if any.
    std::optional<CounterPortion> next();
    std::span<const CounterToDelete> counters() const { return counters_; }

  private:
    std::vector<CounterToDelete> counters_; // those with as many shards stand together
    size_t first_ = 0;                      // of the next portion
    uint64_t shard_ = 0;                    // the same
};

/// Returns the hash slot of the portion's keys.
uint16_t hash_slot_of(const CounterPortion &portion, const CounterOwner &owner);

// These two write a command, and return false if memory ran out.

/// Deletes all keys of the portion.
bool write_deletion(ByteQueue &out, const CounterPortion &portion, const CounterOwner &owner);
/// Deletes one of them.
bool write_deletion(ByteQueue &out, const CounterPortion &portion, const CounterOwner &owner,
                    size_t key);

} // namespace redis_client
