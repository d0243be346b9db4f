// What a reset promises: who was reset has all units again.
#pragma once

#include "simulation/audited_rule.hpp"

#include <cstdint>
#include <vector>

namespace simulation {

/// A reset of the client, which has found the counter.
struct HeardReset {
    int64_t sent_us;
    int64_t done_us;
    int64_t settled_within_us; // what ended before the reset was charged so late at most
};

/// Returns whether Redis has denied what there was room for, whatever is left of the grants since
/// the reset, and in whichever shard they are. All grants of the key are in the list, of whatever
/// history, and none is leased. `is_always_the_same` are the numbers of all that was decided.
bool is_denied_after_reset(const AuditedRule &rule, const std::vector<Grant> &grants,
                           const Denial &denial, const HeardReset &reset, bool is_always_the_same);

} // namespace simulation
