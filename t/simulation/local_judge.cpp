#include "simulation/local_judge.hpp"

#include "simulation/judges.hpp"
#include "simulation/window_judges.hpp"

#include <algorithm>

namespace simulation {

namespace {

uint64_t part_of(uint64_t number, uint64_t percent) {
    return number == 0 ? 0 : std::max<uint64_t>(number * percent / 100, 1);
}

/// The part is at least what the request costs, if the whole is.
Grant with_part_of_numbers(Grant grant, const AuditedRule &rule, uint64_t percent) {
    uint64_t &capacity = rule.is_bucket() ? grant.capacity : grant.limit;
    const uint64_t least = std::min(grant.cost, capacity);
    grant.limit = part_of(grant.limit, percent);
    grant.capacity = part_of(grant.capacity, percent);
    capacity = std::max(capacity, least);
    return grant;
}

} // namespace

std::optional<std::string> judge_granted_alone(const GrantedAlone &alone) {
    std::vector<Grant> grants;
    for (const Grant &grant : alone.grants) {
        grants.push_back(with_part_of_numbers(grant, alone.rule, alone.percent));
    }
    const JudgedKey key{.rule = alone.rule,
                        .settles = alone.settles,
                        .grants = grants,
                        .denials = {},
                        .uncharged = {}};
    // Verdicts of Redis may have moved the windows of this host.
    const bool has_windows = !alone.rule.is_bucket() && alone.rule.algorithm != "concurrency";
    return has_windows ? judge_sums_of_windows(key) : judge_grants(key);
}

} // namespace simulation
