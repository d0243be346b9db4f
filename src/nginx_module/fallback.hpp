// While Redis gives no verdict: what rules decide on this host alone, out of the zone's memory.
#pragma once

#include "ngx.hpp"

#include "applied.hpp"

#include <chrono>
#include <span>

namespace nginx_module {

/// Gives rules without a verdict one by this host, where their zones say on_error=local. All or
/// nothing: none is charged where one of them denies, or another rule of the request.
void decide_on_this_host(std::span<Applied> rules);

/// Keeps what Redis said of rules with on_error=local, asked at that time, so that an outage gives
/// nobody a fresh quota.
void note_verdicts(std::span<Applied> rules, std::chrono::microseconds asked);

/// The request ends: gives back its slots as this host counts them.
void release_slots_of_this_host(const Applied *rules);

} // namespace nginx_module
