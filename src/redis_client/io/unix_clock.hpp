// The wall clock of a host, by which it says in which window of a calendar it is.
#pragma once

#include <chrono>
#include <functional>

namespace redis_client {

/// Returns the Unix time, which may step.
using UnixClock = std::function<std::chrono::microseconds()>;

} // namespace redis_client
