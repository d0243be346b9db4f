// Values of rate-limit headers, written into a caller's buffer.
//
// `x` is the usual X-RateLimit-* trio of whole numbers. `ietf` is
// draft-ietf-httpapi-ratelimit-headers-11; its values are RFC 9651 structured fields, one item a
// rule, to be joined by ", ".
#pragma once

#include "verdict.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace rate_limit {

/// 20 digits hold every 64-bit number.
using NumberBuffer = std::array<char, 20>;

/// Room for one rule's item: a quoted name, which may be a zone's and a window, and parameters.
using ItemBuffer = std::array<char, longest_name + 96>;

/// Returns the part of `out` that holds the number.
std::string_view write_number(uint64_t number, NumberBuffer &out);

/// Whole seconds, rounded up: a client that waits them is never too early.
uint64_t seconds_up(std::chrono::microseconds time);

/// `"per_ip/60s";q=100;w=60`, or `"per_ip/concurrency";q=10;qu="concurrent-requests"`. `name` is
/// the rule's.
std::string_view write_rate_limit_policy_item(std::string_view name, const Quota &quota,
                                              ItemBuffer &out);

/// `"per_ip/60s";r=99;t=60`; `t` is left out where all units are there, and where nobody knows.
std::string_view write_rate_limit_item(std::string_view name, const Verdict &verdict,
                                       ItemBuffer &out);

} // namespace rate_limit
