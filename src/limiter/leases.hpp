// The leases of this host: taking units from them instead of asking Redis, and asking Redis for
// more of them. See rate_limit/rule/leasing.hpp and rate_limit/tables/lease_book.hpp.
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
