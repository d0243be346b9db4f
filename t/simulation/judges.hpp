// What each algorithm promises of the grants of one key and counter: SPEC sections 2 and 6.
#pragma once

#include "simulation/audited_rule.hpp"

#include <optional>
#include <string>
#include <vector>

namespace simulation {

/// What one key had of one counter, of data that belongs together. Both lists are in the order of
/// their times.
struct JudgedKey {
    const AuditedRule &rule;      // one of the counter
    bool has_leases = false;      // any rule of the counter has
    int64_t longest_lease_us = 0; // of all rules of the counter
    bool settles = false;         // the same: units may be returned
    bool counts_in_time = false;  // a bucket: another limit takes its units for more, or for less
    bool is_overridden = false;   // hosts may have had different numbers at one time
    bool is_all_known =
        false;          // each charge and each denial is in the lists, and nothing went wrong
    uint64_t times = 1; // so often the quota may have been granted, because data was copied
    int64_t permits_return_within_us = 20'000; // of the end of their requests
    const std::vector<Grant> &grants;
    const std::vector<Denial> &denials;
    const std::vector<UnchargedCheck> &uncharged; // in any order

    /// How long after the end of a request Redis has certainly heard what it cost.
    int64_t heard_within_us() const { return 2 * permits_return_within_us; }
};

/// Returns what was granted beyond the promise, if anything was.
std::optional<std::string> judge_grants(const JudgedKey &key);
/// Returns whether the client has room at the denial, though all that was charged are the grants.
/// What was granted before `since_us` does not count.
bool is_denied_with_room(const JudgedKey &key, const Denial &denial, int64_t since_us);
/// Returns what is wrong with blocks.
std::optional<std::string> judge_blocks(const JudgedKey &key);

} // namespace simulation
