// A rule's ARGV, as lua/<algorithm>.lua describes it.
#pragma once

#include "../rate_limit/rule.hpp"
#include "resp.hpp"

#include <chrono>

namespace redis_client {

/// For a check. A `concurrency` rule's last argument, the permit, is not among them.
WireWords check_arguments(const rate_limit::Quota &quota, bool aligned);

/// For a refund of what a charge by this quota took; `receipt` is receipt_of_reply().
WireWords refund_arguments(const rate_limit::Quota &quota, int64_t receipt);

/// How much longer a Redis key lives than the state in it, for expiry is no clock: 5 seconds, and
/// the millisecond that Redis may cut off from the time it counts from.
inline constexpr std::chrono::milliseconds expiry_margin{5001};

/// Of a key whose state counts for so long, whole milliseconds.
uint64_t time_to_live_ms(std::chrono::microseconds state);

} // namespace redis_client
