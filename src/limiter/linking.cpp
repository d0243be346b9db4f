#include "limiter/linking.hpp"

#include "rate_limit/algorithms/algorithm_family.hpp"

#include <algorithm>

namespace limiter {

namespace {

/// Whether a request asks for another rule of the level at the same time in another check. If that
/// one denies, what this one has charged is given back.
bool has_rule_in_other_check(const RuleList &level, const Rule &rule) {
    return std::ranges::any_of(level, [&](const Rule *other) {
        return other->phase == rule.phase && !are_asked_together(*other, rule);
    });
}

/// Whether a charge of the rule's counter may be given back, see Rule::may_be_refunded.
bool may_be_refunded(std::span<const Level> levels, const Rule &rule) {
    return std::ranges::any_of(levels, [&](const Level &level) {
        return std::ranges::any_of(level.rules, [&](const Rule *one) {
            return one->rule.same_counter(rule.rule) && has_rule_in_other_check(level.rules, *one);
        });
    });
}

bool may_settle(std::span<Rule *const> rules, const Rule &rule) {
    return std::ranges::any_of(rules, [&](const Rule *one) {
        return one->has_final_cost() && one->rule.same_counter(rule.rule);
    });
}

/// Returns the shortest time for which a rule of the counter leases units, or 0 if none does.
std::chrono::microseconds shortest_lease(std::span<Rule *const> rules, const Rule &rule) {
    std::chrono::microseconds shortest{0};
    for (const Rule *one : rules) {
        const std::chrono::microseconds time = one->longest_lease();
        const bool is_shorter = shortest.count() == 0 || time < shortest;
        if (time.count() > 0 && is_shorter && one->rule.same_counter(rule.rule)) {
            shortest = time;
        }
    }
    return shortest;
}

bool has_constant_limit(const Rule &rule) {
    return rule.limit_text.empty() && rule.burst_text.empty();
}

/// Whether the first limit may grant what the second one denies, of the same counter and at the
/// same cost. A lower limit may, too, of a bucket: it gives what is taken another worth.
bool may_grant_more(const rate_limit::Quota &one, const rate_limit::Quota &other) {
    const bool has_other_pace = rate_limit::is_bucket(one.algorithm) && one.limit != other.limit;
    return has_other_pace || one.capacity() > other.capacity();
}

/// Returns what a request is charged at least if the rule charges it at all, or 0 if it charges
/// nobody. A lease may be of any number of units.
uint64_t least_charge_by(const Rule &rule) {
    const bool has_own_cost = rule.cost_text.empty() && !rule.may_lease();
    return has_own_cost ? rule.rule.quota.cost : 1;
}

/// See Rule::least_charge. Where costs differ, a request that has met two of the rules may be
/// charged a single unit by the second one.
std::optional<uint64_t> least_charge(std::span<Rule *const> rules, const Rule &rule) {
    std::optional<uint64_t> least;
    for (const Rule *one : rules) {
        if (!one->rule.same_counter(rule.rule)) {
            continue;
        }
        if (!has_constant_limit(*one) || may_grant_more(one->rule.quota, rule.rule.quota)) {
            return std::nullopt;
        }
        if (const uint64_t charge = least_charge_by(*one); charge > 0) {
            least = !least || *least == charge ? charge : 1;
        }
    }
    return least.value_or(1);
}

/// Returns how long what the rule charges may keep a client waiting at most. A lease takes units up
/// to a quarter of the time ahead in which they come back.
std::chrono::microseconds longest_wait(const Rule &rule) {
    const rate_limit::Quota &quota = rule.rule.quota;
    const bool has_own_pace = rate_limit::is_bucket(quota.algorithm) && !has_constant_limit(rule);
    if (has_own_pace || quota.calendar != nullptr) {
        return rate_limit::longest_refill;
    }
    return rate_limit::traits_of(quota.algorithm).family.longest_state(quota) * 5 / 4;
}

/// See Rule::wait_beside_block.
std::chrono::microseconds wait_beside_block(std::span<const Level> levels, const Rule &rule) {
    std::chrono::microseconds longest{0};
    for (const Level &level : levels) {
        for (const Rule *one : level.rules) {
            const bool is_dry_run = level.is_dry_run || one->dry_run;
            if (one->rule.block_of(is_dry_run).count() == 0 && one->rule.same_counter(rule.rule)) {
                longest = std::max(longest, longest_wait(*one));
            }
        }
    }
    return longest;
}

void add_shape(std::vector<redis_client::ScriptShape> &shapes,
               const redis_client::ScriptShape &shape) {
    if (std::ranges::find(shapes, shape) == shapes.end()) {
        shapes.push_back(shape);
    }
}

/// Adds scripts for requests to which only some of the rules apply, because a key or a variable is
/// empty. If the rules are few, each combination of them has a script of its own. If they are more,
/// such checks run the script for any rules, which costs Redis more: a client that chooses which
/// keys are empty must not choose how many scripts there are.
void add_rare_shapes(redis_client::SessionSettings &session, const redis_client::ScriptShape &all) {
    constexpr size_t few = 4;
    const auto parts = all.parts();
    if (parts.size() > few) {
        return;
    }
    for (unsigned chosen = 1; chosen < 1U << parts.size(); ++chosen) {
        redis_client::ScriptShape shape;
        for (size_t i = 0; i < parts.size(); ++i) {
            if ((chosen >> i & 1) != 0) {
                shape.add(parts[i]);
            }
        }
        add_shape(session.rare_shapes, shape);
    }
}

void add_shapes(redis_client::SessionSettings &session, const redis_client::ScriptShape &all) {
    add_shape(session.shapes, all);
    add_rare_shapes(session, all);
}

/// Adds the scripts of checks that lease units: for all rules of a request, or for those that have
/// no lease; and for one rule, in the background.
void add_leasing_shapes(redis_client::SessionSettings &session,
                        const redis_client::ScriptShape &all) {
    const auto parts = all.parts();
    if (std::ranges::none_of(parts, &redis_client::ScriptShape::Part::may_lease)) {
        return;
    }
    if (parts.size() <= redis_client::most_rules_with_leases) {
        add_shapes(session, all);
    }
    for (const auto &part : parts) {
        if (part.may_lease) {
            redis_client::ScriptShape alone;
            alone.add({.algorithm = part.algorithm, .may_lease = true});
            add_shape(session.shapes, alone);
        }
    }
}

/// Adds the scripts that requests will run to which the level applies. A check leases units by a
/// script of its own, so that other checks cost Redis no more where some lease.
void add_scripts(const Level &level, const SessionOf &session_of) {
    const RuleList &rules = level.rules;
    for (auto first = rules.begin(); first != rules.end(); ++first) {
        const auto is_with_first = [&](const Rule *rule) {
            return rule->phase == (*first)->phase && are_asked_together(*rule, **first);
        };
        if (std::find_if(rules.begin(), first, is_with_first) != first) {
            continue; // an earlier rule's shape has it
        }
        redis_client::ScriptShape shape;
        redis_client::ScriptShape leasing;
        for (const Rule *rule : rules) {
            if (is_with_first(rule)) {
                const bool is_dry_run = level.is_dry_run || rule->dry_run;
                redis_client::ScriptShape::Part part{
                    .algorithm = rule->rule.quota.algorithm,
                    .dry_run = is_dry_run,
                    .blocks = rule->rule.block_of(is_dry_run).count() > 0};
                shape.add(part);
                part.may_lease = rule->may_lease();
                leasing.add(part);
            }
        }
        redis_client::SessionSettings &session = session_of(**first);
        add_shapes(session, shape);
        add_leasing_shapes(session, leasing);
    }
}

/// Adds the scripts that settle what requests turn out to cost, and give back what leases have
/// left.
void add_settlements(const Rule &rule, redis_client::SessionSettings &session) {
    auto &settled = session.settled;
    const rate_limit::Algorithm algorithm = rule.rule.quota.algorithm;
    const bool settles = rule.has_final_cost() || rule.may_lease();
    if (settles && std::ranges::find(settled, algorithm) == settled.end()) {
        settled.push_back(algorithm);
    }
}

} // namespace

void link_rules(std::span<Rule *const> rules, std::span<const Level> levels,
                const SessionOf &session_of) {
    for (Rule *rule : rules) {
        rule->may_be_refunded = may_be_refunded(levels, *rule);
        rule->may_settle = may_settle(rules, *rule);
        rule->shortest_lease = shortest_lease(rules, *rule);
        rule->least_charge = least_charge(rules, *rule);
        rule->wait_beside_block = wait_beside_block(levels, *rule);
        add_settlements(*rule, session_of(*rule));
    }
    for (const Level &level : levels) {
        add_scripts(level, session_of);
    }
}

} // namespace limiter
