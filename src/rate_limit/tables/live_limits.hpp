// What operators have set for a zone while nginx runs: overrides of clients and of rules, and
// resets of clients, in memory that many processes share. Requests read it without a lock; see
// live_limits_writer.hpp for who writes it.
//
// A client is named by its encoded key, as encode_client_key() writes it. Times are microseconds of
// Redis's clock, unless another one is named.
#pragma once

#include "rate_limit/memory_order.hpp"
#include "rate_limit/rule/rule.hpp"
#include "rate_limit/tables/shared_table.hpp"
#include "rate_limit/text/hash.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace rate_limit {

/// What is said of a client, of a client at one rule, or of a rule for all clients.
struct Override {
    enum class Action : uint8_t {
        numbers, // other numbers than the configured ones
        ban,     // denies
        exempt,  // as if the client's key were empty
    };
    Action action = Action::numbers;
    std::optional<uint64_t> limit = {};      // the configured one if there is none
    std::optional<uint64_t> burst = {};      // the same
    std::chrono::microseconds expires_at{0}; // 0: it holds until it is deleted

    bool has_expired(std::chrono::microseconds redis_now) const {
        return expires_at.count() > 0 && expires_at <= redis_now;
    }
    bool operator==(const Override &) const = default;
};

/// Returns the quota of a rule that has so many shards with the override's numbers in place of its
/// own. A number that the rule cannot have becomes the largest that it can have, so that the rule
/// is never skipped for it. The host that took the override may not have known, because this one
/// has another burst, or because a variable gives it.
Quota overridden(Quota quota, const Override &what, uint64_t shards = 1);

/// Whom an override is about. Either the key or the rule may be empty, but not both.
struct OverrideTarget {
    std::string_view encoded_key;
    std::string_view rule;
};

class LiveLimits {
  public:
    LiveLimits() = default;
    /// Uses memory of `least_memory` at least that is aligned as SharedTable::Tags, and is all
    /// zeros or was used by another one. Refers to the seed.
    LiveLimits(std::span<std::byte> memory, const HashSeed &seed);

    /// Returns false if the zone surely has no override. This costs one load.
    bool may_override() const { return header_->overridden_by.load(relaxed) != 0; }
    /// Returns what holds for a client at a rule: in this order what is said of the client at the
    /// rule, of the client, of the rule. `redis_now()` is called only if an override expires.
    template <typename RedisNow>
    std::optional<Override> find(std::string_view encoded_key, std::string_view rule,
                                 const RedisNow &redis_now) const {
        for (const Hash &identity : identities_of(encoded_key, rule)) {
            const auto found = find(identity);
            if (found && (found->expires_at.count() == 0 || !found->has_expired(redis_now()))) {
                return found;
            }
        }
        return std::nullopt;
    }

    /// Returns when this host learned that the client was reset, by the clock of precise_now(), or
    /// 0 if it was not. If resets may have been missed, all clients count as reset. It costs one
    /// load if no client of the zone was.
    std::chrono::microseconds reset_time(std::string_view encoded_key) const;
    /// Whether the client was reset after `since`, by the same clock. It costs one load if no
    /// client of the zone was.
    bool was_reset_since(std::string_view encoded_key, std::chrono::microseconds since) const;

    /// Whether there is room for an override of that target.
    bool has_room(const OverrideTarget &target) const;
    /// How many overrides hold, some of which may have expired a moment ago.
    uint64_t count() const { return header_->count.load(relaxed); }
    /// Whether an override is missing here that found no room, as far as is known: it may have been
    /// deleted since.
    bool is_short_of_room() const { return header_->is_short_of_room.load(relaxed); }
    /// How many overrides found no room, and how many requests bans have rejected.
    uint64_t dropped() const { return header_->dropped.load(relaxed); }
    uint64_t rejections() const { return header_->rejections.load(relaxed); }
    void count_rejection() const { header_->rejections.fetch_add(1, relaxed); }

    /// How many overrides and resets are stored, roughly; and how many there may be.
    size_t entries() const;
    size_t capacity() const { return overrides_.capacity() + resets_.capacity(); }

  private:
    friend class LiveLimitsWriter;

    /// Who sees a generation sees all that was set before it became valid.
    std::chrono::microseconds valid_generation() const {
        return to_time(header_->valid_generation.load(std::memory_order_acquire));
    }

    struct Header {
        // What requests look at. Other words are in other lines of the cache.
        alignas(64) std::atomic<uint64_t> overridden_by; // a generation; 0: there is no override
        std::atomic<uint64_t> valid_generation;          // overrides of an older one do not hold
        std::atomic<uint64_t> last_reset; // of any client, microseconds of precise_now()
        std::atomic<uint64_t> all_reset;  // of all clients

        alignas(64) std::atomic<uint64_t> last_generation; // it may be complete or not
        std::atomic<uint64_t> damaged_generation;          // see LiveLimitsWriter
        std::atomic<uint64_t> count;
        std::atomic<uint64_t> dropped;
        std::atomic<bool> is_short_of_room; // the last generation has dropped one, or its changes
        alignas(64) std::atomic<uint64_t> rejections;
    };

    Hash identity_of(const OverrideTarget &target) const;
    std::array<Hash, 3> identities_of(std::string_view encoded_key, std::string_view rule) const;
    std::optional<Override> find(const Hash &identity) const;

    static Record to_record(const Override &what, uint64_t generation, uint64_t version);
    static uint64_t version_of(const Record &record);
    static Override to_override(const Record &record);
    static std::chrono::microseconds to_time(uint64_t number) {
        return std::chrono::microseconds(static_cast<int64_t>(number));
    }

    Header *header_ = nullptr;
    const HashSeed *seed_ = nullptr;
    // Its clock counts generations: the time of a record is its own, and it holds up to that one.
    SharedTable overrides_;
    SharedTable resets_; // the time of a record is that of the reset, values[0] is its version

  public:
    static constexpr size_t least_memory =
        sizeof(Header) + 2 * (sizeof(SharedTable::Tags) + sizeof(SharedTable::Entries));
};

} // namespace rate_limit
