// Values of rate-limit headers, written into a caller's buffer.
//
// The headers X-RateLimit-* are whole numbers. RateLimit and RateLimit-Policy are those of
// draft-ietf-httpapi-ratelimit-headers, with r and t as its version -10 has them: RFC 9651
// structured fields with an item for each rule. The caller joins the items by ", ".
#pragma once

#include "rate_limit/rule/verdict.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace rate_limit {

/// Room for one rule's item: a quoted name, which may be that of a zone and a window, and
/// parameters.
using ItemBuffer = std::array<char, longest_name + 96>;

/// Rounds up to whole seconds, so that a client that waits so long is not too early.
uint64_t seconds_up(std::chrono::microseconds time);

/// Writes `"per_ip/60s";q=100;w=60`, or for concurrency
/// `"per_ip/concurrency";q=10;qu="concurrent-requests"`. `name` is the rule's.
std::string_view write_rate_limit_policy_item(std::string_view name, const Quota &quota,
                                              ItemBuffer &out);

/// Writes `"per_ip/60s";r=99;t=60`. There is no `t` if all units are there, and for concurrency,
/// where nobody knows when units come back.
std::string_view write_rate_limit_item(std::string_view name, const Verdict &verdict,
                                       ItemBuffer &out);

} // namespace rate_limit
