// The deny cache: what Redis denied until some time, as all workers of this host know it.
#pragma once

#include "../ngx.hpp"

#include "applied_rule.hpp"

#include <chrono>

namespace nginx_module {

/// Gives the rule the verdict that is known, if it is; the charge has its Redis key.
bool find_denial(AppliedRule &applied, std::chrono::microseconds now);

/// Remembers a denial by Redis. Times are precise_now().
void remember_denial(const AppliedRule &applied, const rate_limit::DenyTable::CheckTimes &times);

} // namespace nginx_module
