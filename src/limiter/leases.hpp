// The leases of this host: taking units from them instead of asking Redis, and asking Redis for
// more of them. See rate_limit/rule/leasing.hpp and rate_limit/tables/lease_book.hpp.
//
// Redis leases units in two ways. rate_limit::take_step() says when units are wanted.
//
// - No lease has the units of a request, as when the first lease of a key is wanted. The request
//   asks Redis anyway, so its own check leases units for those after it: take_leased() writes into
//   the charge how many, prepare_leases() looks for the script that can do so, and
//   BackendCheck::take_answer() keeps what has come.
// - A lease has the units, but is running out. A BackgroundFetch asks for the next lease while
//   requests still take units of this one. It also does so where no script of all rules of a check
//   can lease.
//
// kept_units.hpp puts what Redis has leased in either way into the zone's lease book, where all
// workers of the host take it. held_leases.hpp knows the leases that this worker has fetched: it
// gives what is left of them back to Redis when they end, or when the worker does.
#pragma once

#include "limiter/applied_rule.hpp"
#include "limiter/kept_units.hpp"
#include "limiter/worker.hpp"

#include <span>

namespace limiter {

/// Takes the units of rules from leases, as far as these have them: gives such rules their
/// verdicts, moves them with their charges to the front, and returns them. Some of the others get
/// units that their check is to lease. The charges must have their Redis keys and quotas.
std::span<AppliedRule> take_leased(Worker &worker, std::span<AppliedRule> rules);

/// Gives back the units that rules have taken from leases, because the request is not served.
void give_back_leased(Worker &worker, std::span<AppliedRule> rules);

/// Decides whether the check of these rules leases units, which needs a script of its own.
void prepare_leases(Worker &worker, std::span<AppliedRule> rules);

/// Gives back some of the units that a request has taken of a lease, when it ends.
void return_to_lease(Worker &worker, AppliedRule &applied, uint64_t units);

} // namespace limiter
