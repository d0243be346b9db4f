// What the auditor is told of rules and of what they decide.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace simulation {

inline bool is_bucket(std::string_view algorithm) {
    return algorithm == "token_bucket" || algorithm == "gcra" || algorithm == "leaky_bucket";
}

/// How long all units of a bucket take to come back, in the window's unit.
inline int64_t refill_of_bucket(int64_t window, uint64_t limit, uint64_t burst) {
    return window * static_cast<int64_t>(burst + 1) / static_cast<int64_t>(limit);
}

/// A rule as its configuration says it.
struct AuditedRule {
    std::string name;
    std::string algorithm;
    uint64_t limit = 0;
    int64_t window_us = 0;
    /// Its windows end at multiples of their length by Redis's clock.
    bool is_aligned = false;
    /// By Redis's clock, where a calendar says them.
    std::vector<int64_t> window_ends_us{};
    std::optional<uint64_t> burst = std::nullopt;
    bool has_leases = false;
    std::optional<int64_t> lease_us = std::nullopt; // the longest one; none: `auto`
    bool settles = false;                           // it has a final cost
    bool has_own_costs = false;                     // each request says what it costs
    bool has_own_numbers = false;                   // and its limit and burst
    bool has_rival = false;                         // another location has a rule of its counter
    size_t configuration = 0;                       // the number of the one that has it
    int64_t block_us = 0;                           // 0: it blocks nobody
    uint64_t shards = 1;
    bool is_precontent = false;
    bool is_dry_run = false;

    bool is_bucket() const { return simulation::is_bucket(algorithm); }
    /// Whether a clock says when its windows end, and no request.
    bool has_fixed_ends() const { return is_aligned || !window_ends_us.empty(); }
    /// How long all units take to come back, if the rule says so.
    int64_t refill_us() const {
        const bool is_other = is_bucket() && burst && limit > 0;
        return is_other ? refill_of_bucket(window_us, limit, *burst) : window_us;
    }
    /// For how long it leases units, by SPEC section 9. An operator may let the units of a bucket
    /// come back as slowly as he likes.
    int64_t longest_lease_us() const {
        constexpr int64_t longest_auto_us = 4'000'000;
        constexpr int64_t shortest_auto_us = 10'000;
        if (!has_leases) {
            return 0;
        }
        if (lease_us || is_bucket()) {
            return lease_us.value_or(longest_auto_us);
        }
        const int64_t part = window_us / (algorithm == "sliding_log" ? 64 : 32);
        return std::clamp(part, shortest_auto_us, longest_auto_us);
    }
    /// Rules of one counter count the same.
    std::string counter() const { return algorithm + " " + std::to_string(window_us) + " " + name; }
};

/// What a script of the module does for a key.
enum class ScriptRun {
    check,
    check_that_leaves_key, // if nobody has asked for the key before, it was charged
    settlement,
};

/// Who has granted units.
enum class GrantedBy { redis, lease, host_alone };

/// What Redis has told a client with its decision.
struct Told {
    uint64_t remaining = 0;
    int64_t retry_after_us = 0; // 0 with a grant
    int64_t reset_us = 0;       // until all units are there
    int64_t next_unit_us = 0;   // until one more is
};

/// Units of a key that a request was granted. `time_us` is when Redis charged them, or when they
/// were taken from a lease.
struct Grant {
    int64_t time_us = 0;
    uint64_t cost = 0;
    uint64_t limit = 0;    // that the request had
    uint64_t capacity = 0; // the same, of a bucket
    GrantedBy by = GrantedBy::redis;
    int64_t redis_ahead_us = 0; // of `time_us`: the clock of the Redis that has the key
    int64_t window_ends_us = 0; // of a fixed window that Redis has charged, else 0
    int64_t ended_us = 0;       // when the request ended; the end of the simulation if it did not
    uint64_t final_cost = UINT64_MAX;        // what it turned out to cost then
    size_t history = 0;                      // of the data that the units were charged to
    bool has_block = false;                  // the rule blocks whom it denies
    size_t host = 0;                         // that it came to
    std::optional<Told> told = std::nullopt; // none: by a lease

    /// The units that somebody else can have once the request has ended.
    uint64_t returned() const { return cost - std::min(cost, final_cost); }
    /// The units that were charged then beyond those that were granted.
    uint64_t debt() const { return final_cost != UINT64_MAX ? final_cost - cost + returned() : 0; }
};

/// A check of a key that charged nothing, because another rule denied. Redis has seen its numbers.
/// Or one without an answer, of which it may have.
struct UnchargedCheck {
    int64_t time_us = 0;
    uint64_t limit = 0;
    uint64_t capacity = 0;
    bool is_answered = true;
    size_t host = 0;
};

/// Units of a key that a request was denied. `time_us` is when it was decided.
struct Denial {
    int64_t time_us = 0;
    uint64_t cost = 0;
    uint64_t limit = 0;
    uint64_t capacity = 0;
    bool is_by_redis = true;      // it is not out of a deny cache
    int64_t blocked_until_us = 0; // 0: Redis has blocked nobody
    int64_t until_us = 0;         // when Redis says that the client may come again
    int64_t asked_us = 0;         // when Redis was asked
    int64_t answered_us = 0;      // when the host knew the answer
    size_t history = 0;
    size_t host = 0;
    std::optional<Told> told = std::nullopt; // none: it is not known
    bool has_longest_wait = true;            // of the rules that deny the request
};

/// What an operator has seen of a key, as of a request of that cost which nobody is charged.
struct Look {
    int64_t time_us = 0;
    uint64_t cost = 0;
    uint64_t limit = 0;
    uint64_t capacity = 0;
    Told told{};
};

} // namespace simulation
