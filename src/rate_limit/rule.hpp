// A rule: how much a key may take in how much time. What the user writes as `redis_rate_limit`.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rate_limit {

enum class Algorithm { sliding_log };

/// The algorithm of that name in a configuration, or nothing.
std::optional<Algorithm> algorithm_named(std::string_view name);
std::string_view to_string(Algorithm algorithm);

/// The largest `limit=` of an algorithm: a sliding log keeps an entry for each unit.
uint64_t largest_limit(Algorithm algorithm);

inline constexpr std::chrono::milliseconds shortest_window{1};
inline constexpr std::chrono::milliseconds longest_window = std::chrono::hours{24 * 366};

/// Names of zones, rules and backends: 1 to 64 of `A-Za-z0-9._/-`. They may stand unescaped in a
/// Redis key, a structured header field, a log line and a metric's label.
inline constexpr size_t longest_name = 64;
bool is_name(std::string_view text);

struct Rule {
    std::string zone;
    Algorithm algorithm = Algorithm::sliding_log;
    uint64_t limit = 0;
    std::chrono::milliseconds window{0};
    std::string explicit_name; // empty: the user gave none

    /// The explicit name, else `zone/window`: `per_ip/60s`, `per_ip/500ms`.
    std::string name() const;

    /// The most units the rule can ever grant at once.
    uint64_t capacity() const { return limit; }

    /// Rules that share a counter, whatever their limits: SPEC section 2.
    bool same_counter(const Rule &other) const;
};

} // namespace rate_limit
