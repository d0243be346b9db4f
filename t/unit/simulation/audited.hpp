// Rules and grants as tests of the auditor write them.
#pragma once

#include "simulation/auditor.hpp"

namespace simulation {

inline constexpr int64_t second = 1'000'000;
inline constexpr int64_t long_ago = -60 * second;

inline AuditedRule rule(const std::string &algorithm, uint64_t limit, uint64_t capacity = 0) {
    AuditedRule rule{.name = "r", .algorithm = algorithm, .limit = limit, .window_us = second};
    if (capacity > 0) {
        rule.burst = capacity - 1;
    }
    return rule;
}

/// The grant has the rule's numbers if it has none.
inline Grant by(const AuditedRule &rule, Grant grant) {
    if (grant.limit == 0) {
        grant.limit = rule.limit;
        grant.capacity = rule.burst.value_or(0) + 1;
    }
    return grant;
}

inline size_t complaints(const AuditedRule &rule, const std::vector<Grant> &grants) {
    Auditor auditor;
    auditor.add_rule(rule, long_ago);
    for (const Grant &grant : grants) {
        auditor.grant(0, "k", by(rule, grant));
    }
    return auditor.judge().size();
}

} // namespace simulation
