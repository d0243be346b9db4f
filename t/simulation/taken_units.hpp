// What is taken of a key's quota, as SPEC sections 2, 4 and 14 say it: by whom all grants are
// known.
#pragma once

#include "simulation/judges.hpp"

#include <cstdint>
#include <memory>

namespace simulation {

/// The numbers by which a check or a look is made, and when. An operator may have changed them.
struct AskedNumbers {
    int64_t time_us;
    uint64_t limit;
    uint64_t capacity;
};

/// All is told in the order of the times.
class TakenUnits {
  public:
    virtual ~TakenUnits() = default;

    /// Redis decides a check.
    virtual void see(const AskedNumbers & /*check*/) {}
    virtual void take(const Grant &grant) = 0;
    /// A request has ended that has cost less or more than it was granted. Redis hears of it soon.
    virtual void end(const Grant &grant) = 0;
    /// Redis has heard of it.
    virtual void hear(const Grant &ended, int64_t time_us) = 0;

    /// Whether so many units may be there after a wait, if no more are taken before.
    virtual bool may_have(uint64_t units, const AskedNumbers &asked, int64_t wait_us) const = 0;
    /// Whether they must be.
    virtual bool must_have(uint64_t units, const AskedNumbers &asked, int64_t wait_us) const = 0;
};

/// Makes that of a key whose grants are known, and that leases nothing. Returns nothing where it is
/// not known what counts: when permits have come back, or whether all had come back before the unit
/// that begins the next window.
std::unique_ptr<TakenUnits> make_taken_units(const JudgedKey &key);

} // namespace simulation
