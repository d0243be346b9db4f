// What a request has charged to one counter, and what is to be settled when its final cost is
// known.
//
// Mostly one rule has charged it. But a request that nginx leads to another location may meet a
// stricter rule of the same counter there, which takes what its own cost exceeds that of the rules
// before it. The request settles once, over all of these charges:
//
//     charges.add(quota)                    for each of them, in the order in which they were made
//     charges.debt(final_cost)              is charged, if there is one
//     charges.next_return(quota, final_cost) otherwise: is given back of each of them, in that
//     order
//
// The units of a bucket are worth what they are worth to the strictest of the rules.
#pragma once

#include "rate_limit/rule/rule.hpp"

#include <cstdint>
#include <optional>

namespace rate_limit {

/// Returns a quota of so many units of the same counter, of which nothing is charged yet.
Quota quota_of_units(const Quota &quota, uint64_t units);

class CounterCharges {
  public:
    /// Adds a charge by the quota that it was made with: Quota::charged is what the charges before
    /// it have taken. Returns whether no other rule so far has been stricter.
    bool add(const Quota &quota);

    /// Returns what the request has to be charged besides: the time of Quota::cost or so many
    /// units, less Quota::charged, as the strictest rule counts it.
    std::optional<Quota> debt(uint64_t final_cost) const;

    /// Returns what is to be given back of the next charge: Quota::to_charge() says how much. Those
    /// of a charge that was made before one in front of it was known are given back as far as they
    /// are too much.
    Quota next_return(const Quota &quota, uint64_t final_cost);

  private:
    std::optional<Quota> strictest_;
    // In the unit of Quota::charged:
    uint64_t charged_ = 0;
    uint64_t returned_ = 0;
    uint64_t passed_ = 0; // of the charges of which next_return() was asked
};

} // namespace rate_limit
