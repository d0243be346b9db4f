// What a worker writes to the log apart from any request. What drives the limiter implements it.
#pragma once

#include "limiter/applied_rule.hpp"

#include <cstdint>
#include <span>
#include <string_view>

namespace limiter {

/// What a worker does with leases, for the debug log.
enum class LeaseEvent : uint8_t {
    asked,    // for so many units
    leased,   // so many units, for so many microseconds
    returned, // so many units
};

class WorkerLog {
  public:
    virtual void report(LeaseEvent event, uint64_t units, int64_t time_us = 0) const = 0;
    /// Writes to `out` which rules and keys a check is about, ready to be shown, as far as there is
    /// room, and returns that part of it.
    virtual std::string_view describe(std::span<const AppliedRule> rules,
                                      std::span<char> out) const = 0;

  protected:
    ~WorkerLog() = default;
};

} // namespace limiter
