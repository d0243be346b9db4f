// What the REPLY numbers of one rule mean, which a script in Redis gave or this host worked out.
#pragma once

#include "rate_limit/rule/verdict.hpp"

#include <cstdint>
#include <optional>

namespace rate_limit {

/// Returns the verdict that follows from a reply, or nothing if no state of the rule leads to such
/// numbers. The script decides and replies with its state; the times are worked out here, exactly,
/// and rounded up to microseconds. `charged` says whether the units were taken: they were not if
/// another rule of the same check denies.
std::optional<Verdict> verdict_of_reply(const Quota &quota, RuleReply reply, bool charged);

/// Returns the verdict after units were leased with the check, too. `lease` are the last REPLY
/// numbers of lua/<algorithm>.lua. Returns nothing if no state of the rule leads to such numbers.
std::optional<Verdict> verdict_after_lease(const Quota &quota, RuleReply reply, RuleReply lease);

/// Returns what a refund of the charge refers to, which is the last argument of the `-- refund`
/// part of lua/<algorithm>.lua. `now` is the time of the charge.
int64_t receipt_of_reply(const Quota &quota, RuleReply reply, int64_t now);

} // namespace rate_limit
