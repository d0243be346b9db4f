// What a rule says of a request.
#pragma once

#include "rule.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>

namespace rate_limit {

enum class Decision : uint8_t {
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
    std::chrono::microseconds delay{0};       // for which a granted request is to be held back

    bool operator==(const Verdict &) const = default;
};

/// The REPLY numbers of one rule, as lua/<algorithm>.lua describes them.
using RuleReply = std::span<const int64_t>;

/// Whether the rule, by itself, grants: the script decided that.
bool is_granted(RuleReply reply);

/// The verdict that follows from a reply: the script decides and tells its state, the times are
/// worked out here, exactly and rounded up to microseconds. `charged` says whether the units were
/// taken: where the rule grants, but another one of the same check denies, they were not. Nothing
/// where the numbers are not such a reply.
std::optional<Verdict> verdict_of_reply(const Quota &quota, RuleReply reply, bool charged);

/// The verdict after its charge was refunded. Until when units are missing is then told for those
/// that were charged, too, unless none are missing. `delay` stays as it was: what is refunded was
/// charged to a request that is rejected, and nobody holds that back.
Verdict verdict_after_refund(const Quota &quota, Verdict verdict);

/// What a refund of a charge refers to, as the `-- refund` part of lua/<algorithm>.lua says; `now`
/// is the time of the charge.
int64_t receipt_of_reply(const Quota &quota, RuleReply reply, int64_t now);

/// The verdict that needs no counter: a rule without capacity denies all, for ever.
std::optional<Verdict> verdict_without_counter(const Quota &quota);

/// Which of two rules a client should look at first: the one that denies with the longer wait,
/// else the one with less of its capacity left.
bool is_tighter(const Quota &quota, const Verdict &verdict, const Quota &other_quota,
                const Verdict &other_verdict);

} // namespace rate_limit
