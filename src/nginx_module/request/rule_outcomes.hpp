// What rules came to, for the metrics.
#pragma once

#include "../ngx.hpp"

#include "applied_rule.hpp"

#include <span>

namespace nginx_module {

/// Counts one outcome of each of the rules, which hold together: those of a phase of a request.
void count_outcomes(std::span<const AppliedRule> rules);

} // namespace nginx_module
