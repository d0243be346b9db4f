// How far away Redis is, told from how long it takes to answer.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace redis_client {

class RoundTrip {
  public:
    using Time = std::chrono::microseconds;

    /// So many checks, sent together, were answered after that time.
    void add(Time took, size_t checks);

    /// Whether an answer comes so soon that it pays to wait for it before more is asked: what comes
    /// meanwhile then goes in one command, and costs both sides less.
    bool is_short() const { return std::min(shortest_, shortest_before_) < near; }

    /// Of Redis on the same host, or in the same rack.
    static constexpr Time near{200};

  private:
    // The shortest of the last samples, which a busy machine does not lengthen; those of this many
    // samples, and of as many before.
    static constexpr size_t samples_of_window = 32;
    Time shortest_ = Time::max();
    Time shortest_before_ = Time::max();
    size_t samples_ = 0;
};

} // namespace redis_client
