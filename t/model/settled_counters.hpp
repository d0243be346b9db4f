// Counters whose requests turn out to cost more or less when they end.
#pragma once

#include "rate_limit/rule/rule.hpp"

#include <chrono>
#include <cstdint>
#include <memory>

namespace model {

/// A counter in whole microseconds. The quota has a whole number of them for each unit of a bucket.
class SettledCounter {
  public:
    explicit SettledCounter(const rate_limit::Quota &quota)
        : limit(static_cast<int64_t>(quota.limit)),
          window(std::chrono::microseconds(quota.window).count()),
          capacity(static_cast<int64_t>(quota.capacity())) {}
    virtual ~SettledCounter() = default;

    virtual bool fits(int64_t now, int64_t units) = 0;
    /// Charges units, above the limit, too. Returns what a return of them refers to.
    virtual int64_t charge(int64_t now, int64_t units) = 0;
    virtual void give_back(int64_t now, int64_t units, int64_t charged) = 0;

  protected:
    int64_t limit, window, capacity;
};

std::unique_ptr<SettledCounter> settled_counter_of(const rate_limit::Quota &quota, bool aligned);

} // namespace model
