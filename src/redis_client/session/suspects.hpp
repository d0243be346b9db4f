// What checks have failed by, until a check of it gets a verdict. Others prove nothing: they read
// another key, ask for no calendar, or write nothing.
#pragma once

#include "redis_client/session/check.hpp"
#include "redis_client/session/problem.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace redis_client {

/// A set of some numbers, each of which stands for something that may be at fault.
class SuspectSet {
  public:
    void add(uint64_t one);
    /// Something is at fault that has no number. It stays in the set.
    void add_unknown() { has_unknown_ = true; }
    void remove(uint64_t one);
    bool empty() const { return size_ == 0 && !has_unknown_; }

  private:
    std::array<uint64_t, 64> numbers_{}; // what has no place there is unknown
    size_t size_ = 0;
    bool has_unknown_ = false;
};

class Suspects {
  public:
    using Cause = Problem::Cause;

    /// The check got no verdict for this reason. Nobody knows which of its keys or calendars is at
    /// fault.
    void note_failure(const Command &check, const Problem &problem);
    void note_verdict(const Command &check);

    /// Whether only some verdicts prove that the cause is gone, and none of them has come.
    bool has(Cause cause) const { return !of(cause).empty(); }
    void forget(Cause cause) { of(cause) = {}; }

  private:
    const SuspectSet &of(Cause cause) const { return sets_[static_cast<size_t>(cause)]; }
    SuspectSet &of(Cause cause) { return sets_[static_cast<size_t>(cause)]; }

    std::array<SuspectSet, 3>
        sets_; // by the cause; of Redis itself there is one number, its writes
};

} // namespace redis_client
