// Which process of a host does something that one of them has to do for all. A process claims it
// for a moment, and again before the moment ends: so another one takes over soon if the process has
// ended, and also if it is stopped.
#pragma once

#include "rate_limit/memory_order.hpp"
#include "rate_limit/tables/machine.hpp"

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>

namespace rate_limit {

/// It lives in memory that all processes share, and that is all zeros at first. Times are of one
/// clock that never steps back.
class ProcessClaim {
  public:
    using Time = std::chrono::milliseconds;

    /// For how long a claim counts.
    static constexpr Time lasts_for{1200};

    /// Takes the claim, or keeps it, unless another process has one that still counts. Returns
    /// whether the process has it.
    bool take(pid_t process, Time now, const Machine &machine);
    /// Keeps the claim, even if it does not count any more, unless another process has taken it
    /// since. Returns whether the process has it.
    bool keep(pid_t process, Time now);
    /// Lets the claim go, if the process has it.
    void release(pid_t process);

  private:
    std::atomic<uint64_t> word_; // the process, and when its claim ends; 0: nobody has it
};

} // namespace rate_limit
