// The ARGV of a rule, as lua/<algorithm>.lua describes it.
#pragma once

#include "rate_limit/rule/rule.hpp"
#include "redis_client/wire/resp.hpp"

#include <array>
#include <chrono>
#include <vector>

namespace redis_client {

/// Returns the arguments for a check. The last argument of a `concurrency` rule, the permit, is not
/// among them. If a calendar says the windows, one of them is a late word.
WireWords check_arguments(const rate_limit::Quota &quota, bool aligned);

/// Returns the arguments for checks of a rule by its own numbers, for each of its shards.
std::vector<WireWords> arguments_of_shards(const rate_limit::Rule &rule);

/// Returns the arguments for a check that may lease units, but for how many: `longest_lease` is for
/// how long at most, up to a quarter of the time in which the whole capacity comes back.
WireWords leasing_arguments(const rate_limit::Quota &quota, bool aligned,
                            std::chrono::microseconds longest_lease);

/// Returns the arguments of a settlement that charges the quota's cost, above the limit, too.
WireWords debt_arguments(const rate_limit::Quota &quota, bool aligned);

/// What a refund says of the charge whose units it gives back.
struct ChargeToReturn {
    int64_t receipt; // of receipt_of_reply()
    // By Redis's clock, when it was made, and when all that was taken by then would be back. They
    // are 0 if nobody knows, and where the units of one receipt may come back in parts.
    std::chrono::microseconds made{0};
    std::chrono::microseconds led_to{0};
};

/// Returns the arguments for a refund of what a charge by this quota took.
WireWords refund_arguments(const rate_limit::Quota &quota, const ChargeToReturn &charge);

/// The word that a check's arguments leave a place for if a calendar says the windows: the four
/// Calendar::Boundaries at an instant, as lua/fixed_window.lua reads them.
using CalendarWord = std::array<char, 4 * sizeof(double)>;
CalendarWord calendar_word(const rate_limit::Calendar &calendar,
                           std::chrono::microseconds unix_time);

/// How much longer a Redis key lives than the state in it, because expiry is not exact: 5 seconds,
/// and the millisecond that Redis may cut off from the time at which it begins to count.
inline constexpr std::chrono::milliseconds expiry_margin{5001};

/// Returns how long a key lives whose state counts for so long, in whole milliseconds.
uint64_t time_to_live_ms(std::chrono::microseconds state);

} // namespace redis_client
