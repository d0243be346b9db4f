// Which rules lease units, when a host leases them for a key, and how many. It is decided by what
// requests have asked for lately, so that only keys that are busy on this host cost Redis more than
// a check.
#pragma once

#include "rate_limit/rule/rule.hpp"
#include "rate_limit/rule/verdict.hpp"
#include "rate_limit/tables/lease_book.hpp"

#include <chrono>
#include <cstdint>
#include <optional>

namespace rate_limit {

/// Returns for how long units of the quota are leased at most, or 0 if they are not: because of the
/// rule's `lease=`, because a request of the quota can be held back, or because the capacity comes
/// back too fast.
std::chrono::microseconds lease_time(const Quota &quota, const LeaseSetting &setting);

/// Returns the longest time that `lease=` may give: a quarter of the one in which the capacity
/// comes back.
std::chrono::microseconds longest_lease_time(const Quota &quota);

/// Returns the longest time for which the setting lets units of any quota be leased, or 0.
std::chrono::microseconds longest_lease_time(const LeaseSetting &setting);

/// What a host knows of a key's rule and of its Redis when a request comes.
struct LeaseTerms {
    std::chrono::microseconds lease_time; // of lease_time(), not 0
    std::chrono::microseconds round_trip; // how long a check takes at present
    std::chrono::microseconds timeout;    // how long it may take
};

/// A claim to fetch a lease, whose check was asked at a time of the book's clock.
struct LeaseClaim {
    std::chrono::microseconds lease_time;
    std::chrono::microseconds asked;
    std::chrono::microseconds claimed_until; // for LeaseBook::Account::end_fetch()
};

/// What becomes of a request.
struct LeaseStep {
    std::optional<LeaseBook::Taken> taken; // its units, if a lease had them
    uint64_t wanted = 0;                   // units to lease now, for the requests after it
    LeaseClaim claim{};                    // if units are wanted
};

/// Counts a request, takes its units from a lease, and says whether to fetch another one. If so,
/// the account is claimed, and finish_fetch() has to follow.
LeaseStep take_step(const LeaseBook::Account &account, uint64_t units, const LeaseTerms &terms,
                    std::chrono::microseconds now, const Machine &machine);

/// What Redis granted with the check, by lua/<algorithm>.lua.
struct LeasedUnits {
    uint64_t units = 0;
    std::chrono::microseconds usable_for{0}; // counted from when the check was sent
    int64_t receipt = 0;                     // names them in a return
};

/// Returns when units end that were leased so, by a clock that may be slow by a thousandth.
std::chrono::microseconds end_of_lease(const LeaseClaim &claim, const LeasedUnits &leased);

/// Puts leased units into the account, and ends the claim. `after` is what Redis has left;
/// without an answer nothing is leased. Returns false if there are units that the account did not
/// take: they may be returned to Redis.
bool finish_fetch(const LeaseBook::Account &account, const LeaseClaim &claim,
                  const LeasedUnits &leased, const Verdict &after, std::chrono::microseconds now);

/// The verdict on a request whose units were taken from a lease: what Redis had left, and what this
/// host still holds.
Verdict verdict_of_lease(const Quota &quota, const LeaseBook::Account &account,
                         std::chrono::microseconds now);

} // namespace rate_limit
