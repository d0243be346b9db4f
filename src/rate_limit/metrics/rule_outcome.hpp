// What a rule can come to in a request.
#pragma once

#include "rate_limit/enum_table.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rate_limit {

/// A rule comes to exactly one of these in a request. A new one is a value here, and a row of the
/// table.
enum class RuleOutcome : uint8_t {
    passed,
    delayed,
    rejected, // by Redis, by the deny cache, by a limit of 0, or by a ban
    dry_run_delayed,
    dry_run_rejected,
    local_passed, // decided by this host, for Redis gave no verdict
    local_delayed,
    local_rejected,
    uncharged, // it granted, but another rule denied
    error_open,
    error_closed,
    invalid, // a variable was not a number that it may be
};

struct RuleOutcomeTraits {
    RuleOutcome outcome;
    std::string_view name; // in JSON, and for Prometheus as a label
};

inline constexpr std::array rule_outcome_table = {
    RuleOutcomeTraits{RuleOutcome::passed, "passed"},
    RuleOutcomeTraits{RuleOutcome::delayed, "delayed"},
    RuleOutcomeTraits{RuleOutcome::rejected, "rejected"},
    RuleOutcomeTraits{RuleOutcome::dry_run_delayed, "dry_run_delayed"},
    RuleOutcomeTraits{RuleOutcome::dry_run_rejected, "dry_run_rejected"},
    RuleOutcomeTraits{RuleOutcome::local_passed, "local_passed"},
    RuleOutcomeTraits{RuleOutcome::local_delayed, "local_delayed"},
    RuleOutcomeTraits{RuleOutcome::local_rejected, "local_rejected"},
    RuleOutcomeTraits{RuleOutcome::uncharged, "uncharged"},
    RuleOutcomeTraits{RuleOutcome::error_open, "error_open"},
    RuleOutcomeTraits{RuleOutcome::error_closed, "error_closed"},
    RuleOutcomeTraits{RuleOutcome::invalid, "invalid"},
};
static_assert(is_in_order(rule_outcome_table, &RuleOutcomeTraits::outcome));

inline constexpr size_t outcome_count = rule_outcome_table.size();

constexpr std::string_view to_string(RuleOutcome outcome) {
    return rule_outcome_table[static_cast<size_t>(outcome)].name;
}

} // namespace rate_limit
