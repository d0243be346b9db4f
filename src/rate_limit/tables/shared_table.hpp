// A table in memory that many processes share. It finds a few numbers by a hash, and each record
// holds for some time.
//
// The table is laid out once, as buckets of a few entries, and never changes its shape. Nobody
// takes a lock. The first word of an entry is its hash mixed with all its other words. An entry may
// be half written, because a process still writes, was killed while it wrote, or wrote at the same
// time as another one. Its first word then does not fit the others, and a reader takes it for no
// entry.
#pragma once

#include "rate_limit/text/hash.hpp"

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
    std::chrono::microseconds holds_for; // counts from `time`; if not positive, it has ended
    std::array<uint64_t, 4> values;

    bool operator==(const Record &) const = default;
};

class SharedTable {
  public:
    static constexpr size_t entries_of_bucket = 32;

    /// Parts of the hashes of a bucket's entries. For a key that is not in the table, a reader
    /// looks at nothing else. The tags of all buckets stand together, before all entries, so that
    /// they stay in the processor's caches.
    struct alignas(64) Tags : std::array<std::atomic<uint16_t>, entries_of_bucket> {};
    struct Entry {
        std::array<std::atomic<uint64_t>, 8> words; // see shared_table.cpp
    };
    using Entries = std::array<Entry, entries_of_bucket>;

    SharedTable() = default;
    /// Uses memory that has room for one bucket at least, is aligned as Tags, and is all zeros or
    /// was used by another table.
    explicit SharedTable(std::span<std::byte> memory);

    /// Returns the record that was stored last, if it is still there and holds at `now`. It also
    /// holds before its `time`, for another process may have read the clock a little later than
    /// this one.
    std::optional<Record> find(const Hash &hash, std::chrono::microseconds now) const;

    /// Stores the record in place of the one of the same hash. If there is none, it takes the place
    /// of a record of the same bucket that no longer holds at `record.time`, or else of one of the
    /// bucket's oldest quarter. Returns false if a record that still held was lost.
    bool store(const Hash &hash, const Record &record);

    /// The same, but no other record makes room that still holds at `now`. Returns false if the
    /// record was not stored for that.
    bool store_if_free(const Hash &hash, const Record &record, std::chrono::microseconds now);
    /// Whether store_if_free() would store a record of that hash.
    bool has_place(const Hash &hash, std::chrono::microseconds now) const;

    /// Removes the record of that hash, whether it holds or not.
    void erase(const Hash &hash);
    /// Removes the records of one bucket for which `is_dead(record)` returns true. It sees all that
    /// are wholly written, whether they hold or not.
    template <typename IsDead>
    void erase_if(size_t bucket, const IsDead &is_dead) {
        for (size_t i = 0; i < entries_of_bucket; ++i) {
            if (const auto record = record_at(bucket, i); record && is_dead(*record)) {
                clear(bucket, i);
            }
        }
    }

    /// How many records hold at `now`. For a large table this is an estimate.
    size_t count(std::chrono::microseconds now) const;
    /// How many records there may be.
    size_t capacity() const { return entries_.size() * entries_of_bucket; }
    size_t bucket_count() const { return entries_.size(); }
    /// How many bytes a record takes.
    static constexpr size_t entry_size = 66;

  private:
    struct Place {
        size_t index;
        bool is_taken; // by a record of another hash that still holds
    };

    Place place_for(size_t bucket, const Hash &hash, std::chrono::microseconds now) const;
    void write(size_t bucket, size_t index, const Hash &hash, const Record &record);
    void clear(size_t bucket, size_t index);
    std::optional<Record> record_at(size_t bucket, size_t index) const;

    std::span<Tags> tags_;
    std::span<Entries> entries_;
};

static_assert(sizeof(SharedTable::Tags) == 64 && sizeof(SharedTable::Entry) == 64,
              "each takes one line of the cache");
static_assert(SharedTable::entry_size == sizeof(SharedTable::Entry) + sizeof(uint16_t));
static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<uint16_t>::is_always_lock_free);

} // namespace rate_limit
