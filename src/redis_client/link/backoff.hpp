// How long to wait before the next attempt to connect to a Redis that could not be reached.
#pragma once

#include "redis_client/fault.hpp"

#include <chrono>
#include <cstdint>

namespace redis_client {

/// The wait is 50 ms at first and doubles up to a limit. Each is shortened at random by up to a
/// half, so that the workers of a fleet do not come back all at once.
class Backoff {
  public:
    static constexpr std::chrono::milliseconds first{50};
    static constexpr std::chrono::milliseconds longest{1000};
    /// If Redis refuses the login: somebody has to mend that, and Redis logs each attempt.
    static constexpr std::chrono::milliseconds longest_refused{10'000};
    static constexpr std::chrono::milliseconds longest_after(const Fault &fault) {
        return fault.is_refusal ? longest_refused : longest;
    }

    /// Returns the wait before the next attempt, `at_most` or less. `random` is any number, by
    /// which the wait is shortened.
    std::chrono::milliseconds next(uint32_t random, std::chrono::milliseconds at_most = longest);
    void reset() { step_ = first; }

  private:
    std::chrono::milliseconds step_ = first;
};

} // namespace redis_client
