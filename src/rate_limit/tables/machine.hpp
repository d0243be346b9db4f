// What tables in shared memory ask of the machine whose processes share them.
#pragma once

#include <sys/types.h>

#include <chrono>

namespace rate_limit {

class Machine {
  public:
    /// Returns the time of a clock that goes on while the machine sleeps, too, and never steps
    /// back. Leases end by it.
    virtual std::chrono::microseconds boot_now() const = 0;
    /// Whether a process has not ended.
    virtual bool is_alive(pid_t process) const = 0;

  protected:
    ~Machine() = default;
};

} // namespace rate_limit
