// While Redis gives no verdict: what rules decide on this host alone, out of the zone's memory.
#pragma once

#include "../ngx.hpp"

#include "applied_rule.hpp"

#include <chrono>
#include <span>

namespace nginx_module {

/// Gives rules without a verdict one by this host, where their zones say on_error=local. All or
/// nothing: none is charged where one of them denies, or another rule of the request.
void decide_on_this_host(std::span<AppliedRule> rules);

/// Keeps what Redis said of rules with on_error=local, asked at that time, so that an outage gives
/// nobody a fresh quota.
void remember_verdicts(std::span<AppliedRule> rules, std::chrono::microseconds asked);

/// The request ends: gives back its permits as this host counts them.
void release_permits_of_this_host(const AppliedRule *rules);

} // namespace nginx_module
