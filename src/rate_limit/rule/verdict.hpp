// The verdict of a rule on a request, or why there is none.
#pragma once

#include "rate_limit/rule/rule.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace rate_limit {

/// Why a check got no verdict.
enum class Failure {
    timeout,  // there was no answer within the check's deadline
    connect,  // there was no connection, or it broke while the check was on its way
    reply,    // Redis answered with an error
    breaker,  // Redis was not asked, because too many checks in a row had failed
    overload, // too many checks wait already, or memory ran out
};

inline constexpr std::array<std::string_view, 5> failure_names = {"timeout", "connect", "reply",
                                                                  "breaker", "overload"};

/// The name that metrics have for a failure.
constexpr std::string_view to_string(Failure failure) {
    return failure_names[static_cast<size_t>(failure)];
}

enum class Decision : uint8_t {
    granted,
    denied, // the request would be granted after `retry_after`
    never,  // the rule can never grant such a request
};

struct Verdict {
    Decision decision = Decision::granted;
    uint64_t remaining = 0;                   // units that are left
    std::chrono::microseconds retry_after{0}; // it is 0 unless the decision is `denied`
    std::chrono::microseconds next_unit{0};   // until one more unit is there; 0 if all are there
    std::chrono::microseconds reset{0};       // until all units are there; 0 if they are
    std::chrono::microseconds delay{0};       // how long a granted request is to be held back

    bool operator==(const Verdict &) const = default;
};

/// The decision of a rule that, by itself, grants or not.
inline Decision decision_of(const Quota &quota, bool granted) {
    if (quota.cost > quota.capacity()) {
        return Decision::never;
    }
    return granted ? Decision::granted : Decision::denied;
}

/// The REPLY numbers of one rule, as lua/<algorithm>.lua describes them.
using RuleReply = std::span<const int64_t>;

/// Whether the rule, by itself, grants. The script has decided that.
bool is_granted(RuleReply reply);

/// Returns the verdict after its charge was refunded. If units are still missing, the times are
/// those until the refunded units would have come back, too. `delay` stays as it was: a refund is
/// made for a request that is rejected, and nobody holds that back.
Verdict verdict_after_refund(const Quota &quota, Verdict verdict);

/// Returns the verdict on a client that the rule has blocked for so long. `of_counter` is the one
/// without the block, on a request that was not charged. A client that waits until both let it pass
/// passes.
Verdict verdict_of_blocked(const Quota &quota, const Verdict &of_counter,
                           std::chrono::microseconds blocked_for);

/// Returns the verdict of a rule that needs no counter, because its capacity is 0 and it denies
/// everything; of another rule, nothing.
std::optional<Verdict> verdict_without_counter(const Quota &quota);

/// Returns how much of a capacity of at least 1 is taken, in whole per cent, rounded down.
uint64_t used_percent(uint64_t capacity, uint64_t remaining);

/// Whether the first of two rules is the one that a client should look at: the one that denies, or
/// has the longer wait if both deny, or has less of its capacity left if both grant.
bool is_tighter(const Quota &quota, const Verdict &verdict, const Quota &other_quota,
                const Verdict &other_verdict);

} // namespace rate_limit
