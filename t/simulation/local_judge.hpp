// What a host grants alone while Redis gives no verdict: SPEC section 1, `on_error` and
// `local_limit`.
#pragma once

#include "simulation/audited_rule.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace simulation {

/// What one host has granted alone of one key and counter, in the order of its times.
struct GrantedAlone {
    const AuditedRule &rule; // one of the counter
    bool settles = false;    // any rule of the counter does
    uint64_t percent = 100;  // the host's part of the limits
    const std::vector<Grant> &grants;
};

/// Returns what was granted beyond the host's part, if anything was. All grants have the same
/// numbers.
std::optional<std::string> judge_granted_alone(const GrantedAlone &alone);

} // namespace simulation
