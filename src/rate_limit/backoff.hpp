// How long to wait before the next attempt to reach a Redis that could not be reached.
#pragma once

#include <chrono>
#include <cstdint>

namespace rate_limit {

/// 50 ms, doubling to 1 s, each shortened by up to a half at random, so that the workers of a
/// fleet do not come back all at once.
class Backoff {
  public:
    /// The wait before the next attempt. `random` is any number, the source of the jitter.
    std::chrono::milliseconds next(uint32_t random);
    void reset() { step_ = first; }

    static constexpr std::chrono::milliseconds first{50};
    static constexpr std::chrono::milliseconds longest{1000};

  private:
    std::chrono::milliseconds step_ = first;
};

} // namespace rate_limit
