// What Redis denied until some time, kept in memory that many processes share: a client that was
// denied until then need not be asked for again.
//
// The table is laid out once, as buckets of a few entries, and never changes its shape. Nobody
// takes a lock: an entry's first word is its hash mixed with all its other words, so that a reader
// who meets an entry that is half written, by a process that still writes, was killed while it
// wrote, or wrote at the same time as another, takes it for none.
#pragma once

#include "hash.hpp"
#include "verdict.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rate_limit {

class DenyTable {
  public:
    static constexpr size_t entries_of_bucket = 32;

    /// Parts of the hashes of a bucket's entries, and all that a reader looks at where nothing is
    /// known. Those of all buckets stand together, in front, so that they stay in the processor's
    /// caches: a client who is granted pays for no more.
    struct alignas(64) Tags : std::array<std::atomic<uint16_t>, entries_of_bucket> {};
    struct Entry {
        std::array<std::atomic<uint64_t>, 8> words; // see deny_table.cpp
    };
    using Entries = std::array<Entry, entries_of_bucket>;

    DenyTable() = default;
    /// Over memory for one bucket at least, aligned as Tags, that is all zeros at first, or that
    /// another table was over.
    explicit DenyTable(std::span<std::byte> memory);

    /// What the hash stands for is all that the denial depends on. Times are of one clock that all
    /// processes share and that never steps back. The check ran at some time between the two, so
    /// the denial holds from the first on, and the times that it tells are those from the second.
    struct CheckTimes {
        std::chrono::microseconds asked;
        std::chrono::microseconds answered;
    };
    void add(const Hash &hash, const Verdict &denied, const CheckTimes &times);

    /// The denial as it is now, if it still holds and is not older than `longest`: its times are
    /// counted down. Of units that came back since then Redis has not told.
    std::optional<Verdict> find(const Hash &hash, std::chrono::microseconds now,
                                std::chrono::microseconds longest) const;

  private:
    size_t bucket_of(const Hash &hash) const;

    std::span<Tags> tags_;
    std::span<Entries> entries_;
};

static_assert(sizeof(DenyTable::Tags) == 64 && sizeof(DenyTable::Entry) == 64,
              "one line of the cache each");
static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<uint16_t>::is_always_lock_free);

} // namespace rate_limit
