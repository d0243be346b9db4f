// How long to wait before the next attempt to reach a Redis that could not be reached.
#pragma once

#include <chrono>
#include <cstdint>

namespace redis_client {

/// 50 ms, doubling up to a limit, each shortened by up to a half at random, so that the workers of
/// a fleet do not come back all at once.
class Backoff {
  public:
    static constexpr std::chrono::milliseconds first{50};
    static constexpr std::chrono::milliseconds longest{1000};
    /// Where Redis refuses the login: that takes somebody to mend it, and Redis logs each attempt.
    static constexpr std::chrono::milliseconds longest_refused{10'000};

    /// The wait before the next attempt, `at_most` or less. `random` is any number, the source of
    /// the jitter.
    std::chrono::milliseconds next(uint32_t random, std::chrono::milliseconds at_most = longest);
    void reset() { step_ = first; }

  private:
    std::chrono::milliseconds step_ = first;
};

} // namespace redis_client
