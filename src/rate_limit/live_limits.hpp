// What operators have set for a zone while nginx runs: overrides of clients and of rules, and
// resets of clients, in memory that many processes share. One process of the host writes what Redis
// knows; any process reads, without a lock.
//
// A client is named by its encoded key, as encode_client_key() writes it. Times are microseconds of
// Redis's clock, unless another one is named.
#pragma once

#include "hash.hpp"
#include "shared_table.hpp"

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

/// Whom an override is about. Either the key or the rule may be empty, but not both.
struct OverrideTarget {
    std::string_view encoded_key;
    std::string_view rule;
};

class LiveLimits {
  public:
    LiveLimits() = default;
    /// Uses memory that has room for memory_for_header and one bucket at least, is aligned as
    /// SharedTable::Tags, and is all zeros or was used by another one.
    LiveLimits(std::span<std::byte> memory, const HashSeed *seed);

    // What requests read.

    /// Returns false if the zone surely has no override. This costs one load.
    bool may_override() const;
    /// Returns what holds for a client at a rule: in this order what is said of the client at the
    /// rule, of the client, of the rule. `redis_now` is called only if an override expires.
    template <typename RedisNow>
    std::optional<Override> find(std::string_view encoded_key, std::string_view rule,
                                 const RedisNow &redis_now) const;
    /// Whether the client was reset after `since`, by the clock of precise_now(), as far as this
    /// host knows. It costs one load if no client of the zone was.
    bool was_reset_since(std::string_view encoded_key, std::chrono::microseconds since) const;

    // What the one process writes that asks Redis. A full synchronisation is a generation:
    // begin_generation(), set...() for all that Redis has, end_generation(), after which nothing of
    // an older generation holds. Between two of them changes are set one by one.

    void begin_generation();
    void end_generation();
    /// Returns false if there is no room: the override is dropped, and holds nowhere on this host.
    bool set(const OverrideTarget &target, const Override &what);
    void remove(const OverrideTarget &target);
    /// The client was reset. `version` names the reset, so that it counts once; `now` is the time
    /// of precise_now().
    void reset(std::string_view encoded_key, uint64_t version, std::chrono::microseconds now);
    /// All clients count as reset, because resets may have been missed.
    void reset_all(std::chrono::microseconds now);
    /// Counts anew what count() returns, without what has expired, and what may_override() knows.
    void recount(std::chrono::microseconds redis_now);

    /// How many overrides held when they were counted last.
    uint64_t count() const;
    /// Overrides that found no room so far, and requests that bans rejected.
    uint64_t dropped() const;
    uint64_t rejections() const;
    void count_rejection() const;
};

} // namespace rate_limit
