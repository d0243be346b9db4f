// The smallest limits by which a rule alone would have rejected no more than some part of its
// requests.
//
// Where all requests cost the same, a larger limit never rejects more (43,000 random logs have
// shown no other case), so bisection finds them. Each limit that is tried replays the requests that
// the spool has kept. That is done by the module's own arithmetic in C++ instead of the scripts: by
// rate_limit/algorithms/local.hpp, which decides as they do, and for sliding_log, of which it keeps
// less, by a list of times. A test holds the result equal to replays by the scripts.
#pragma once

#include "rate_limit/rule/rule.hpp"
#include "replay/rules/rule_tally.hpp"

#include <array>
#include <cstdint>
#include <optional>

namespace replay {

/// The parts of its requests that a rule may reject at most, as they stand in the output.
inline constexpr std::array<double, 3> searched_parts = {0.01, 0.001, 0};

/// The limit for each of these parts; nothing: no limit that the algorithm takes rejects so few.
using FoundLimits = std::array<std::optional<uint64_t>, searched_parts.size()>;

/// The quota's cost is that of all requests: at least 1, and its limit does not matter.
FoundLimits find_limits(const rate_limit::Quota &quota, bool aligned, RuleTally &tally);

} // namespace replay
