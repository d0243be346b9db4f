#include "limiter/rule_outcomes.hpp"

#include "limiter/readable_key.hpp"

#include <algorithm>

namespace limiter {

namespace {

using rate_limit::RuleCounter;
using rate_limit::RuleOutcome;

RuleOutcome outcome_of_grant(const AppliedRule &applied, bool is_rejected) {
    const redis_client::Charge &charge = *applied.charge;
    const bool is_local = applied.is_decided_by(RuleResult::Source::local);
    if (charge.quota.cost == 0) { // the counter is only read: nothing is charged or delayed
        return is_local ? RuleOutcome::local_passed : RuleOutcome::passed;
    }
    const bool is_lease_abandoned =
        applied.is_decided_by(RuleResult::Source::lease) && !applied.is_charged;
    if (is_rejected || is_lease_abandoned) {
        return RuleOutcome::uncharged;
    }
    if (charge.verdict.delay.count() == 0) {
        return is_local ? RuleOutcome::local_passed : RuleOutcome::passed;
    }
    if (applied.dry_run) {
        return RuleOutcome::dry_run_delayed;
    }
    return is_local ? RuleOutcome::local_delayed : RuleOutcome::delayed;
}

RuleOutcome outcome_of_denial(const AppliedRule &applied) {
    if (applied.dry_run) {
        return RuleOutcome::dry_run_rejected;
    }
    return applied.is_decided_by(RuleResult::Source::local) ? RuleOutcome::local_rejected
                                                            : RuleOutcome::rejected;
}

RuleOutcome outcome_of(const AppliedRule &applied, bool is_rejected) {
    switch (applied.result.kind()) {
    case RuleResult::Kind::verdict:
        break;
    case RuleResult::Kind::no_verdict:
        return applied.rule->zone->on_error == rate_limit::OnError::closed && !applied.dry_run
                   ? RuleOutcome::error_closed
                   : RuleOutcome::error_open;
    case RuleResult::Kind::invalid:
        return RuleOutcome::invalid;
    }
    return applied.denies() ? outcome_of_denial(applied) : outcome_of_grant(applied, is_rejected);
}

/// True if an enforced rule denies, whoever decided it (Redis, the deny cache or this host).
bool is_rejection(const AppliedRule &applied) {
    return applied.denies() && !applied.dry_run;
}

void count_top_key(const Zone &zone, std::string_view key) {
    const rate_limit::TopKeys::Kept kept = zone.kept_top_keys();
    KeyTextBuffer buffer;
    if (kept == rate_limit::TopKeys::Kept::hashes) {
        key = hash_of_key(zone, key, buffer);
    }
    zone.memory.top_keys().count(zone.memory.seed(), kept, key);
}

bool is_banned(const AppliedRule &applied) {
    return applied.ban && !applied.dry_run;
}

/// Calls `use(rule)` once for each zone, however many of its rules are such.
template <typename IsSuch, typename Use>
void for_one_of_each_zone(std::span<const AppliedRule> rules, const IsSuch &is_such,
                          const Use &use) {
    for (auto applied = rules.begin(); applied != rules.end(); ++applied) {
        const auto is_used = [&](const AppliedRule &earlier) {
            return earlier.rule->zone == applied->rule->zone && is_such(earlier);
        };
        if (is_such(*applied) && std::none_of(rules.begin(), applied, is_used)) {
            use(*applied);
        }
    }
}

/// Whether another rule of the zone, of the list and not of the row, has denied the request.
bool is_denied_by_others(const Zone &zone, std::span<const AppliedRule> row,
                         const AppliedRule *list) {
    for (const AppliedRule *one = list; one != nullptr; one = one->next) {
        const bool is_of_row = one >= row.data() && one < row.data() + row.size();
        if (!is_of_row && one->rule->zone == &zone && is_rejection(*one)) {
            return true;
        }
    }
    return false;
}

} // namespace

void count_used_units(const AppliedRule &applied) {
    applied.counters().count(RuleCounter::lease_units_used, applied.lease.taken->units);
}

void count_outcomes(std::span<const AppliedRule> rules) {
    const bool is_rejected = std::ranges::any_of(rules, &AppliedRule::rejects);
    for (const AppliedRule &applied : rules) {
        rate_limit::RuleCounters &counters = applied.counters();
        counters.count(outcome_of(applied, is_rejected));
        if (applied.is_decided_by(RuleResult::Source::deny_cache)) {
            counters.count(RuleCounter::rejected_by_deny_cache);
        }
        if (is_banned(applied)) {
            counters.count(RuleCounter::rejected_by_override);
        }
        if (applied.is_decided_by(RuleResult::Source::lease) && applied.is_charged &&
            !is_rejected) {
            counters.count(RuleCounter::lease_requests);
            if (!applied.rule->may_settle) {
                count_used_units(applied);
            }
        }
    }
    if (is_rejected) {
        for_one_of_each_zone(rules, is_banned, [](const AppliedRule &applied) {
            applied.rule->zone->memory.live_limits().count_rejection();
        });
    }
}

void count_rejection(std::span<const AppliedRule> rules, const AppliedRule *others) {
    for_one_of_each_zone(rules, is_rejection, [&](const AppliedRule &applied) {
        const Zone &zone = *applied.rule->zone;
        if (!is_denied_by_others(zone, rules, others)) {
            count_top_key(zone, applied.key);
        }
    });
}

} // namespace limiter
