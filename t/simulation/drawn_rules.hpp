// Draws the configurations of a simulation: what all its hosts have, and what they have after a
// reload.
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
    int64_t leases_for_us = 0; // as its numbers allow; 0: they allow no lease
};

/// What a simulation is mostly about.
enum class Theme : uint8_t {
    anything,
    leases, // one rule with leases, and many requests
    waves,  // the same, with small limits, and clients that come after quiet times
    blocks,
    shards,
    edges, // limits where Redis encodes their state in another way
    // Long windows, and operators: what a client has used up does not come back of itself before
    // all hosts must have heard of a reset.
    operators,
    // Each client makes one request, and may be charged for it once.
    single_requests,
    calendars, // say the windows, one of which ends meanwhile
};

/// When windows of `fixed_window` begin and end.
enum class FixedWindows : uint8_t {
    begun_by_requests,
    aligned,
    of_calendars, // one of them ends meanwhile
};

struct DrawnConfiguration {
    Theme theme = Theme::anything;
    FixedWindows fixed_windows = FixedWindows::begun_by_requests;
    RuleWords zone;                 // parameters of `redis_rate_limit_zone`
    uint64_t local_percent = 100;   // as they say it
    bool fills_lease_books = false; // of hosts, with more keys than they have entries
    size_t max_pending = 16384;     // of each worker's backend
    std::vector<DrawnRule> rules;
    /// Those of another location, or none: each has the counter of the rule of the same place.
    std::vector<DrawnRule> rivals = {};
    /// The last host has the same rules without `lease=`.
    bool has_host_without_leases = false;
};

DrawnConfiguration draw_configuration(Chance &chance, FixedWindows fixed_windows);
/// Draws one that a reload makes of it: other numbers, a rule gone, a rule new.
DrawnConfiguration redraw(const DrawnConfiguration &configuration, Chance &chance);
/// Returns what a host has that leases nothing.
DrawnConfiguration without_leases(DrawnConfiguration configuration);

} // namespace simulation
