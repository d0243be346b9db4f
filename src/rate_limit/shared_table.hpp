// A table in memory that many processes share: a few numbers by a hash, each set for some time.
//
// It is laid out once, as buckets of a few entries, and never changes its shape. Nobody takes a
// lock: an entry's first word is its hash mixed with all its other words, so that a reader who
// meets an entry that is half written, by a process that still writes, was killed while it wrote,
// or wrote at the same time as another, takes it for none.
#pragma once

#include "hash.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rate_limit {

/// Times are of one clock that all processes share and that never steps back.
struct Record {
    std::chrono::microseconds time;
    std::chrono::microseconds holds_for; // from `time` on
    std::array<uint64_t, 4> values;

    bool operator==(const Record &) const = default;
};

class SharedTable {
  public:
    static constexpr size_t entries_of_bucket = 32;

    /// Parts of the hashes of a bucket's entries, and all that a reader looks at where nothing is
    /// known. Those of all buckets stand together, in front, so that they stay in the processor's
    /// caches: a key that is not there costs no more.
    struct alignas(64) Tags : std::array<std::atomic<uint16_t>, entries_of_bucket> {};
    struct Entry {
        std::array<std::atomic<uint64_t>, 8> words; // see shared_table.cpp
    };
    using Entries = std::array<Entry, entries_of_bucket>;

    SharedTable() = default;
    /// Over memory for one bucket at least, aligned as Tags, that is all zeros at first, or that
    /// another table was over.
    explicit SharedTable(std::span<std::byte> memory);

    /// What was stored last, if it is still there and holds at `now`. It also holds before its
    /// `time`: another process may have read the clock a little later than this one.
    std::optional<Record> find(const Hash &hash, std::chrono::microseconds now) const;

    /// In the place of what is there for the hash, else of a record of the same bucket that no
    /// longer holds at `record.time`, else of the one with the oldest time. False where that was
    /// lost.
    bool store(const Hash &hash, const Record &record);

    /// How many records hold at `now`. In a large table that is an estimate, from buckets here and
    /// there: to count them all would take too long for a process that has requests to serve.
    size_t count(std::chrono::microseconds now) const;
    /// How many there may be.
    size_t capacity() const { return entries_.size() * entries_of_bucket; }
    /// What one takes.
    static constexpr size_t entry_size = 66;

  private:
    struct Place {
        size_t index;
        bool is_taken; // by a record of another hash that still holds
    };

    size_t bucket_of(const Hash &hash) const;
    Place place_for(size_t bucket, const Hash &hash, std::chrono::microseconds now) const;

    std::span<Tags> tags_;
    std::span<Entries> entries_;
};

static_assert(sizeof(SharedTable::Tags) == 64 && sizeof(SharedTable::Entry) == 64,
              "one line of the cache each");
static_assert(SharedTable::entry_size == sizeof(SharedTable::Entry) + sizeof(uint16_t));
static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<uint16_t>::is_always_lock_free);

} // namespace rate_limit
