// What a rule says of a request.
#pragma once

#include "rule.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>

namespace rate_limit {

enum class Decision {
    granted,
    denied, // waiting `retry_after` helps
    never,  // the rule can never grant it
};

struct Verdict {
    Decision decision = Decision::granted;
    uint64_t remaining = 0;                   // units left
    std::chrono::microseconds retry_after{0}; // 0 unless denied
    std::chrono::microseconds next_unit{0};   // until one more unit is there; 0 when all are
    std::chrono::microseconds reset{0};       // until all units are there; 0 when they are

    bool operator==(const Verdict &) const = default;
};

/// The verdict that follows from a script's reply, whose numbers lua/<algorithm>.lua describes: the
/// script decides and tells its state, the times are worked out here, exactly and rounded up to
/// microseconds. Nothing where the numbers are not such a reply.
std::optional<Verdict> verdict_of_reply(const Rule &rule, std::span<const int64_t> reply);

/// The verdict that needs no counter: a rule without capacity denies all, for ever.
std::optional<Verdict> verdict_without_counter(const Rule &rule);

/// Which of two rules a client should look at first: the one that denies with the longer wait,
/// else the one with less of its capacity left.
bool is_tighter(const Rule &rule, const Verdict &verdict, const Rule &other_rule,
                const Verdict &other_verdict);

} // namespace rate_limit
