// The Lua scripts that Redis runs: embedded at build time from lua/.
#pragma once

#include "../rate_limit/rule.hpp"
#include "resp.hpp"

#include <string>
#include <string_view>

namespace redis_client {

struct Script {
    std::string_view source; // static
    std::string sha1;        // 40 hex digits, the name that EVALSHA knows it by
};

const Script &script_of(rate_limit::Algorithm algorithm);

/// The script's ARGV for a rule, in wire form: constant, so made once at configuration.
WireWords script_arguments(const rate_limit::Rule &rule);

/// How much longer a Redis key lives than the state in it, for expiry is no clock: 5 seconds, and
/// the millisecond that Redis may cut off from the time it counts from.
inline constexpr std::chrono::milliseconds expiry_margin{5001};

} // namespace redis_client
