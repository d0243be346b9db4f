// Units that Redis has leased with a check go into the zone's lease book.
#pragma once

#include "limiter/applied_rule.hpp"
#include "limiter/worker.hpp"

#include <span>

namespace limiter {

enum class Answered : uint8_t { no, yes };

/// Keeps what Redis has leased with the check of these rules, and ends their claims.
void keep_leases(Worker &worker, std::span<AppliedRule> rules, Answered answered);

} // namespace limiter
