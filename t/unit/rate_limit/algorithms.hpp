// The algorithms, for tests that hold for each of them.
#pragma once

#include "rate_limit/rule/rule.hpp"

#include <span>

namespace rate_limit {

/// The algorithms that count what was taken, not what is in flight.
inline constexpr std::span all_but_concurrency =
    std::span(all_algorithms).first<all_algorithms.size() - 1>();
static_assert(all_algorithms.back() == Algorithm::concurrency);

} // namespace rate_limit
