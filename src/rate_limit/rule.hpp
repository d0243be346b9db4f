// A rule: how much a key may take in how much time. What the user writes as `redis_rate_limit`.
#pragma once

#include "algorithm.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

namespace rate_limit {

inline constexpr std::chrono::milliseconds shortest_window{1};
inline constexpr std::chrono::milliseconds longest_window = std::chrono::hours{24 * 366};

/// A bucket that takes longer to fill is refused.
inline constexpr std::chrono::microseconds longest_refill = std::chrono::hours{24 * 3653};

/// Names of zones, rules and backends: 1 to 64 of `A-Za-z0-9._/-`. They may stand unescaped in a
/// Redis key, a structured header field, a log line and a metric's label.
inline constexpr size_t longest_name = 64;
bool is_name(std::string_view text);

/// What a rule grants, in numbers, and what a request asks of it.
struct Quota {
    Algorithm algorithm = Algorithm::sliding_log;
    std::chrono::milliseconds window{0};
    uint64_t limit = 0;
    std::optional<uint64_t> burst = {}; // of buckets
    uint64_t delay = 0; // of leaky buckets: units of the burst that are not held back
    uint64_t cost = 1;  // units that the request takes
    // What the request has charged to the same counter already, by a rule that was less strict:
    // units, or whole microseconds of a bucket.
    uint64_t charged = 0;

    /// The most units the rule can ever grant at once.
    uint64_t capacity() const;
    /// Sets the burst of a bucket, else the limit, so that the capacity becomes that. A bucket of a
    /// limit of 0 keeps its capacity of 0.
    void set_capacity(uint64_t units);

    /// The time in which the whole capacity comes back: the window, or a bucket's
    /// capacity * window / limit, rounded up; the longest time there is where that is longer.
    std::chrono::microseconds refill() const;

    /// What is still to be charged for the cost, in the unit of `charged`. Of a bucket rounded
    /// down.
    uint64_t to_charge() const;

    /// Whether anything is to be charged: of a bucket that may be less than a microsecond.
    bool charges() const;
};

/// Whether a request that passed the first quota need not ask the second one, of the same counter:
/// its capacity and its pace are no larger, and its cost is no smaller.
bool is_at_least_as_strict(const Quota &quota, const Quota &other);

/// The time of one unit of a bucket, window / limit, as a whole number of units of 1/parts
/// microseconds, where `parts` is the least that allows that. For a limit of 0 as for 1.
struct Interval {
    explicit Interval(const Quota &quota);
    uint64_t length;
    uint64_t parts;
};

/// A time of a bucket: whole microseconds, and the rest in 1/Interval::parts of one.
struct BucketTime {
    uint64_t us;
    uint64_t fraction;
};

/// The time in which so many units come back.
BucketTime time_of_units(const Interval &interval, uint64_t units);

/// By how much the request moves the bucket's state on: the time of its cost, less what is charged.
BucketTime time_to_charge(const Quota &quota);

struct Rule {
    std::string zone;
    Quota quota;
    bool aligned = false;      // of fixed windows: they start at multiples of the window
    std::string explicit_name; // empty: the user gave none
    uint64_t shards = 1;       // Redis keys over which each counter is spread

    /// The explicit name, else `zone/window`: `per_ip/60s`, `per_ip/500ms`, `per_ip/concurrency`.
    std::string name() const;

    /// Rules whose counters are equal share one, whatever their limits: "Names and counters"
    /// in docs/directives.md. Refers to the rule.
    auto counter() const { return std::tie(zone, quota.algorithm, quota.window, explicit_name); }
    bool same_counter(const Rule &other) const { return counter() == other.counter(); }
};

} // namespace rate_limit
