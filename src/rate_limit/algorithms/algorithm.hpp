// The algorithms that a rule may have.
//
// A new algorithm is a value of the enum and a row of the table, with a family of its own: the
// script lua/<name>.lua and the code src/rate_limit/algorithms/<name>.cpp. An algorithm that
// decides as another one does, but by other parameters, takes that one's family.
#pragma once

#include "rate_limit/enum_table.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rate_limit {

enum class Algorithm : uint8_t {
    fixed_window,
    sliding_log,
    sliding_window,
    token_bucket,
    gcra,
    leaky_bucket,
    concurrency,
};

/// The largest limit, burst, delay and cost of any rule.
inline constexpr uint64_t largest_number = 1'000'000'000;

/// What the parameter `burst=` of an algorithm means.
enum class Burst : uint8_t {
    none,        // the algorithm does not take it: its capacity is the limit
    is_capacity, // the capacity of a bucket; without the parameter that is the limit
    above_one,   // a bucket's capacity is one more; without the parameter that is 1
};

/// What the algorithms of one script have in common: see algorithm_family.hpp.
struct AlgorithmFamily;
namespace fixed_window {
extern const AlgorithmFamily family;
}
namespace sliding_log {
extern const AlgorithmFamily family;
}
namespace sliding_window {
extern const AlgorithmFamily family;
}
namespace bucket {
extern const AlgorithmFamily family;
}
namespace concurrency {
extern const AlgorithmFamily family;
}

struct AlgorithmTraits {
    Algorithm algorithm;
    std::string_view name; // in configurations, Redis keys and metrics
    const AlgorithmFamily &family;
    size_t reply_length; // REPLY numbers of the script, without those of a lease
    Burst burst = Burst::none;
    bool takes_aligned = false;
    bool takes_delay = false;
    bool needs_window = true; // else `window=` may be left out
    // What is taken is in the hands of requests in flight, by permits, and comes back when they
    // end.
    bool holds_permits = false;
    bool returns_at_once = false; // all units come back at one time, whatever is taken before
    bool keeps_each_unit = false; // the key has an entry for each unit, which costs Redis time
    // `lease=auto` leases for this part of the time in which the capacity comes back, at first; 0:
    // its script cannot lease units.
    int lease_divisor = 32;
    uint64_t largest_limit = largest_number;
    uint64_t largest_cost = largest_number;
};

inline constexpr std::array algorithm_table = {
    AlgorithmTraits{.algorithm = Algorithm::fixed_window,
                    .name = "fixed_window",
                    .family = fixed_window::family,
                    .reply_length = 2,
                    .takes_aligned = true,
                    .returns_at_once = true},
    AlgorithmTraits{.algorithm = Algorithm::sliding_log,
                    .name = "sliding_log",
                    .family = sliding_log::family,
                    .reply_length = 4,
                    .keeps_each_unit = true,
                    .lease_divisor = 64, // a leased unit comes back up to a lease's time later
                    .largest_limit = 1'000'000,
                    .largest_cost = 1'000},
    AlgorithmTraits{.algorithm = Algorithm::sliding_window,
                    .name = "sliding_window",
                    .family = sliding_window::family,
                    .reply_length = 3},
    AlgorithmTraits{.algorithm = Algorithm::token_bucket,
                    .name = "token_bucket",
                    .family = bucket::family,
                    .reply_length = 3,
                    .burst = Burst::is_capacity,
                    .lease_divisor = 16},
    AlgorithmTraits{.algorithm = Algorithm::gcra,
                    .name = "gcra",
                    .family = bucket::family,
                    .reply_length = 3,
                    .burst = Burst::above_one,
                    .lease_divisor = 16},
    AlgorithmTraits{.algorithm = Algorithm::leaky_bucket,
                    .name = "leaky_bucket",
                    .family = bucket::family,
                    .reply_length = 3,
                    .burst = Burst::above_one,
                    .takes_delay = true,
                    .lease_divisor = 16},
    AlgorithmTraits{.algorithm = Algorithm::concurrency,
                    .name = "concurrency",
                    .family = concurrency::family,
                    .reply_length = 1,
                    .needs_window = false,
                    .holds_permits = true,
                    .lease_divisor = 0},
};

static_assert(is_in_order(algorithm_table, &AlgorithmTraits::algorithm));

constexpr const AlgorithmTraits &traits_of(Algorithm algorithm) {
    return algorithm_table[static_cast<size_t>(algorithm)];
}

constexpr size_t reply_length(Algorithm algorithm) {
    return traits_of(algorithm).reply_length;
}
inline constexpr size_t longest_reply =
    std::ranges::max_element(algorithm_table, {}, &AlgorithmTraits::reply_length)->reply_length;
/// How many more REPLY numbers there are where units are leased: the units, for how long they can
/// be used, and what their return refers to, counted from the time of the check.
inline constexpr size_t lease_reply_length = 3;
/// The same where a rule blocks: the time that is left of the block.
inline constexpr size_t block_reply_length = 1;

inline constexpr auto all_algorithms = [] {
    std::array<Algorithm, algorithm_table.size()> all{};
    std::ranges::transform(algorithm_table, all.begin(), &AlgorithmTraits::algorithm);
    return all;
}();

/// The algorithm of that name in a configuration, or nothing.
std::optional<Algorithm> algorithm_named(std::string_view name);

/// The names of the algorithms for which `has` is true, as a message lists them: `a, b or c`.
std::string names_of_algorithms(bool (*has)(const AlgorithmTraits &traits));

constexpr std::string_view to_string(Algorithm algorithm) {
    return traits_of(algorithm).name;
}

/// Whether one unit comes back each window / limit.
constexpr bool is_bucket(Algorithm algorithm) {
    return traits_of(algorithm).burst != Burst::none;
}

constexpr bool holds_permits(Algorithm algorithm) {
    return traits_of(algorithm).holds_permits;
}

/// The algorithm whose script gives permits back and renews them. One command may renew those of
/// many rules, so that all algorithms that hold permits are of its family.
inline constexpr Algorithm algorithm_of_permits =
    std::ranges::find(algorithm_table, true, &AlgorithmTraits::holds_permits)->algorithm;
static_assert(std::ranges::all_of(algorithm_table, [](const AlgorithmTraits &traits) {
    return !traits.holds_permits || &traits.family == &traits_of(algorithm_of_permits).family;
}));

constexpr uint64_t largest_limit(Algorithm algorithm) {
    return traits_of(algorithm).largest_limit;
}
constexpr uint64_t largest_cost(Algorithm algorithm) {
    return traits_of(algorithm).largest_cost;
}

} // namespace rate_limit
