// Draws the rules of a simulation.
#pragma once

#include "simulation/auditor.hpp"
#include "simulation/chance.hpp"

#include <string>
#include <vector>

namespace simulation {

/// A directive `redis_rate_limit` of the only zone, without `zone=`.
using RuleWords = std::vector<std::string>;

/// A rule, as a configuration says it and as the auditor knows it.
struct DrawnRule {
    RuleWords words;
    AuditedRule audited;
};

std::vector<DrawnRule> draw_rules(Chance &chance);

} // namespace simulation
