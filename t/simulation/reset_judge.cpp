#include "simulation/reset_judge.hpp"

#include "simulation/numbers_of_key.hpp"

namespace simulation {

bool is_denied_after_reset(const AuditedRule &rule, const std::vector<Grant> &grants,
                           const Denial &denial, const HeardReset &reset, bool is_always_the_same) {
    const bool counts_in_time = rule.is_bucket() && !is_always_the_same;
    if (!denial.is_by_redis || denial.time_us < reset.done_us || rule.block_us > 0 ||
        counts_in_time) {
        return false; // units of another limit, or of a large cost that began a block
    }
    uint64_t taken = denial.cost;
    for (const Grant &grant : grants) {
        if (grant.time_us > denial.time_us) {
            continue;
        }
        if (grant.time_us >= reset.sent_us) {
            taken += grant.cost;
        }
        if (grant.ended_us >= reset.sent_us - reset.settled_within_us) {
            taken += grant.debt();
        }
    }
    const uint64_t share = smallest_share(rule, denial.limit, denial.capacity);
    return share > 0 && taken <= share;
}

} // namespace simulation
