#include "rate_limit/rule/leasing.hpp"

#include <algorithm>

namespace rate_limit {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr uint64_t least_capacity = 16; // an eighth of less is hardly worth a lease
constexpr uint64_t least_requests = 4;  // of a key in the time of a lease
constexpr int least_round_trips = 4;    // in the time of a lease
constexpr int most_of_refill = 4;       // a lease takes no more than this part of it
constexpr microseconds longest_automatic = milliseconds{4000};

microseconds automatic_time(const Quota &quota) {
    constexpr microseconds shortest = milliseconds{10};
    const microseconds refill = quota.refill();
    const microseconds time =
        std::clamp(refill / traits_of(quota.algorithm).lease_divisor, shortest, longest_automatic);
    const bool is_worth_it = quota.capacity() >= least_capacity && time <= refill / most_of_refill;
    return is_worth_it ? time : microseconds{0};
}

/// How long before the end of its lease a host asks for the next one.
microseconds lead_of(const LeaseTerms &terms) {
    return std::max(terms.lease_time / 8, 2 * terms.round_trip);
}

/// Whether the leases may be used up, or end, before another one can be there.
bool is_running_out(const LeaseBook::Account::Holding &holding, const Demand &demand,
                    const LeaseTerms &terms, microseconds now) {
    const microseconds lead = lead_of(terms);
    return holding.end - now < lead ||
           holding.units * static_cast<uint64_t>(terms.lease_time.count()) <
               demand.units * static_cast<uint64_t>(lead.count());
}

/// What the requests of the lease's time will ask for, without what the lease before it will grant
/// of that until it ends, and a little less: it is better to fetch somewhat sooner than to have a
/// few units left at the end, for these cost a call to return. Requests that cost as much as this
/// one leave none either.
uint64_t units_to_lease(const LeaseBook::Account::Holding &holding, const Demand &demand,
                        uint64_t cost, const LeaseTerms &terms, microseconds now) {
    const auto left = static_cast<uint64_t>(std::max(holding.end - now, microseconds{0}).count());
    const uint64_t until_end =
        demand.units * left / static_cast<uint64_t>(terms.lease_time.count());
    const uint64_t uncovered = demand.units - std::min({demand.units, holding.units, until_end});
    const uint64_t wanted = std::min(uncovered - uncovered / 16, LeaseBook::most_units);
    return wanted > cost ? wanted - wanted % cost : wanted;
}

} // namespace

microseconds lease_time(const Quota &quota, const LeaseSetting &setting) {
    const AlgorithmTraits &traits = traits_of(quota.algorithm);
    const bool holds_back = traits.takes_delay && quota.delay < quota.burst.value_or(0);
    if (traits.lease_divisor == 0 || holds_back) {
        return microseconds{0};
    }
    switch (setting.kind) {
    case LeaseSetting::Kind::off:
        break;
    case LeaseSetting::Kind::automatic:
        return automatic_time(quota);
    case LeaseSetting::Kind::given:
        return setting.given <= longest_lease_time(quota) ? microseconds{setting.given}
                                                          : microseconds{0};
    }
    return microseconds{0};
}

microseconds longest_lease_time(const Quota &quota) {
    return quota.refill() / most_of_refill;
}

microseconds longest_lease_time(const LeaseSetting &setting) {
    switch (setting.kind) {
    case LeaseSetting::Kind::off:
        break;
    case LeaseSetting::Kind::automatic:
        return longest_automatic;
    case LeaseSetting::Kind::given:
        return setting.given;
    }
    return microseconds{0};
}

LeaseStep take_step(const LeaseBook::Account &account, uint64_t units, const LeaseTerms &terms,
                    microseconds now, const Machine &machine) {
    const Demand demand = account.count(units, terms.lease_time, now);
    LeaseStep step{.taken = account.take(units, now, machine)};
    if (demand.requests < least_requests ||
        terms.lease_time < least_round_trips * terms.round_trip) {
        return step;
    }
    const LeaseBook::Account::Holding holding = account.holding(now);
    if (!holding.has_room || (step.taken && !is_running_out(holding, demand, terms, now))) {
        return step;
    }
    step.claim = {
        .lease_time = terms.lease_time, .asked = now, .claimed_until = now + terms.timeout};
    if (account.claim_fetch(step.claim.claimed_until, now)) {
        step.wanted = units_to_lease(holding, demand, units, terms, now);
    }
    return step;
}

microseconds end_of_lease(const LeaseClaim &claim, const LeasedUnits &leased) {
    constexpr int drift = 1000;
    const microseconds usable_for = std::min(leased.usable_for, claim.lease_time);
    return claim.asked + usable_for - usable_for / drift;
}

bool finish_fetch(const LeaseBook::Account &account, const LeaseClaim &claim,
                  const LeasedUnits &leased, const Verdict &after, microseconds now) {
    const bool has_leased = leased.units > 0;
    const bool is_added = has_leased && account.add({.units = leased.units,
                                                     .end = end_of_lease(claim, leased),
                                                     .receipt = leased.receipt,
                                                     .remaining = after.remaining,
                                                     .next_unit = now + after.next_unit,
                                                     .reset = now + after.reset},
                                                    now);
    // Where nothing is left, or Redis does not answer, the next try would cost as much in vain.
    account.end_fetch(claim.claimed_until, has_leased ? now : now + claim.lease_time);
    return is_added || !has_leased;
}

Verdict verdict_of_lease(const Quota &quota, const LeaseBook::Account &account, microseconds now) {
    const LeaseBook::Account::Holding holding = account.holding(now);
    const uint64_t remaining = std::min(holding.remaining + holding.units, quota.capacity());
    // A unit that has come back meanwhile is not counted before Redis is asked again. Until then it
    // is told that the next one is about to come.
    const auto wait_until = [&](microseconds time) {
        return remaining < quota.capacity() ? std::max(time - now, microseconds{1})
                                            : microseconds{0};
    };
    return {.remaining = remaining,
            .next_unit = wait_until(holding.next_unit),
            .reset = wait_until(holding.reset)};
}

} // namespace rate_limit
