// The lease book: units that this host has leased from Redis in advance, and how much its requests
// ask for, in memory that many processes share. While a lease of a key holds, any of them takes
// units from it instead of asking Redis.
//
// Nobody takes a lock, and a process may be stopped or killed anywhere: at worst, units are lost.
// They stay charged in Redis until they come back of themselves. lease_book.cpp says why no unit is
// ever taken twice.
//
// Times are those of Machine::boot_now().
#pragma once

#include "rate_limit/tables/machine.hpp"
#include "rate_limit/text/hash.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rate_limit {

/// What Redis granted in advance. Its units may be taken before `end`.
struct Lease {
    uint64_t units;
    std::chrono::microseconds end;
    int64_t receipt; // names the lease in a return

    // What Redis still had when it granted the lease, for headers:
    uint64_t remaining;                  // units besides those of the lease
    std::chrono::microseconds next_unit; // when the next one of them comes back
    std::chrono::microseconds reset;     // when all of them are back
};

/// What the requests of a key asked for in the last interval.
struct Demand {
    uint64_t requests; // more than most_counted count as so many
    uint64_t units;

    static constexpr uint64_t most_counted = 7;
};

class LeaseBook {
  public:
    static constexpr size_t entries_of_bucket = 4;
    /// The most units of a lease.
    static constexpr uint64_t most_units = (uint64_t{1} << 18) - 1;

    struct alignas(64) Entry {
        static constexpr size_t leases = 2; // one is used while the next one is fetched

        // A key that nobody leases needs no more than this line of the cache.
        std::atomic<uint64_t> identity_low;
        std::atomic<uint64_t> identity_high;
        std::array<std::atomic<uint64_t>, leases> words; // see lease_book.cpp
        std::atomic<uint64_t> demand;                    // see lease_book.cpp
        std::atomic<uint64_t> next_fetch; // nobody may fetch a lease before, microseconds
        std::atomic<uint64_t> last_seen;  // microseconds

        struct Details {
            std::atomic<int64_t> receipt;
            std::atomic<uint64_t> remaining;
            std::atomic<uint64_t> next_unit; // microseconds
            std::atomic<uint64_t> reset;     // microseconds
        };
        alignas(64) std::array<Details, leases> details;
    };
    using Bucket = std::array<Entry, entries_of_bucket>;

    /// Units that were taken from a lease, for one request or to be returned.
    struct Taken {
        uint64_t units;
        std::chrono::microseconds at; // after they were taken, before the lease's end; 0: a rest
        int64_t receipt;
        size_t slot;   // of the entry
        uint64_t name; // of the lease in its slot

        /// Returns when the lease ends, or a little earlier.
        std::chrono::microseconds end() const;
    };

    /// The leases and the demand of one key and quota. It refers to the book's memory.
    class Account {
      public:
        /// Counts a request, and returns the demand of the last `interval`, this request included.
        Demand count(uint64_t units, std::chrono::microseconds interval,
                     std::chrono::microseconds now) const;

        /// Takes the units from one lease. Returns nothing if none has so many. The machine is
        /// asked for the time once more when they are taken.
        std::optional<Taken> take(uint64_t units, std::chrono::microseconds now,
                                  const Machine &machine) const;
        /// Puts units back into the lease that they came from. Returns false if that has ended;
        /// then they may be returned to Redis.
        bool give_back(const Taken &taken, std::chrono::microseconds now) const;
        /// Takes what is left of a lease that has ended, so that it can be returned to Redis.
        std::optional<Taken> take_ended(std::chrono::microseconds now) const;
        /// Takes all that is left of one lease, because this host will not use it.
        std::optional<Taken> take_all() const;

        /// What can still be taken, and until when. The numbers are 0 if there is no lease.
        struct Holding {
            uint64_t units;
            std::chrono::microseconds end; // of the lease that ends last
            bool has_room;                 // for one more lease
            uint64_t remaining;            // of that lease
            std::chrono::microseconds next_unit;
            std::chrono::microseconds reset;
        };
        Holding holding(std::chrono::microseconds now) const;

        /// Claims to fetch a lease, for one process at a time: nobody else may until `deadline`.
        /// Returns false if somebody else does, or if it is too early for the next lease.
        bool claim_fetch(std::chrono::microseconds deadline, std::chrono::microseconds now) const;
        /// Ends the claim of that deadline. The next one may begin at `next_fetch`.
        void end_fetch(std::chrono::microseconds deadline,
                       std::chrono::microseconds next_fetch) const;
        /// Adds a lease. Returns false if there is no room for it, or if its key has none any more;
        /// then its units may be returned to Redis.
        bool add(const Lease &lease, std::chrono::microseconds now) const;

      private:
        friend class LeaseBook;
        Account(Entry &entry, const Hash &identity) : entry_(&entry), identity_(identity) {}

        bool is_current() const;
        std::optional<Taken> take_from(size_t slot, uint64_t units, std::chrono::microseconds now,
                                       const Machine &machine) const;
        template <typename IsWanted>
        std::optional<Taken> take_rest(const IsWanted &is_wanted) const;

        Entry *entry_;
        Hash identity_;
    };

    LeaseBook() = default;
    /// Uses memory that has room for a line of the cache and one bucket at least, is aligned as
    /// Entry, and is all zeros or was used by another book.
    explicit LeaseBook(std::span<std::byte> memory);

    /// Returns the account of a hash, which is made of all that tells a key and a quota from
    /// others; nothing if there is none, or if it was lost.
    std::optional<Account> find(const Hash &identity) const;
    /// The same, but makes one in place of the one that was seen last of all in its bucket. Returns
    /// nothing if all others of the bucket have leases, or units of leases that have just ended.
    std::optional<Account> find_or_make(const Hash &identity, std::chrono::microseconds now) const;

    /// How many entries have leases. For a large book this is an estimate.
    size_t count(std::chrono::microseconds now) const;
    size_t capacity() const { return buckets_.size() * entries_of_bucket; }

  private:
    struct alignas(64) Header {
        std::atomic<uint64_t> last_replacement; // counts the entries that were given to other keys
    };

    Bucket &bucket_of(const Hash &identity) const;
    bool replace(Entry &entry, const Hash &identity, std::chrono::microseconds now) const;

    Header *header_ = nullptr;
    std::span<Bucket> buckets_;
};

static_assert(sizeof(LeaseBook::Entry) == 128, "each takes two lines of the cache");

} // namespace rate_limit
