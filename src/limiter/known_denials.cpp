#include "limiter/known_denials.hpp"

#include "limiter/counter_identity.hpp"
#include "limiter/shard_choice.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace limiter {

namespace {

/// Whether denials of the rule may be cached. A dry run denies nothing. If the request has already
/// charged the counter, Redis was asked for a smaller cost than other requests ask for.
bool may_cache(const AppliedRule &applied) {
    return !applied.dry_run && applied.charge->quota.charged == 0 &&
           applied.rule->zone->deny_cache.count() > 0;
}

/// Whether a denial by the counter holds until the time that Redis said. Permits and refunded units
/// may come back at any time.
bool is_certain(const AppliedRule &applied) {
    return !applied.rule->may_be_refunded &&
           !rate_limit::holds_permits(applied.charge->quota.algorithm);
}

/// Returns for how long a denial is known to hold, which may be 0. When a block has ended Redis is
/// to be asked, even if the rule still denies: its next denial begins another block.
std::chrono::microseconds certain_for(const AppliedRule &applied) {
    const redis_client::Charge &charge = *applied.charge;
    const bool holds_until_retry = charge.blocked_for.count() == 0 && is_certain(applied);
    return holds_until_retry ? charge.verdict.retry_after : charge.blocked_for;
}

/// Returns a hash of all that a denial depends on.
rate_limit::Hash hash_of_denial(const AppliedRule &applied) {
    return identity_of(applied, applied.charge->quota.cost);
}

/// Returns how long a denial is known. A host that leases units of the counter, by this rule or
/// another one, may give some back long before the denial's end, and so may a request whose final
/// cost is less than what it reserved.
std::chrono::microseconds longest_denial(const AppliedRule &applied) {
    std::chrono::microseconds longest = applied.rule->zone->deny_cache;
    if (applied.rule->may_settle) {
        longest = std::min<std::chrono::microseconds>(longest, std::chrono::seconds{1});
    }
    for (const std::chrono::microseconds lease :
         {applied.lease_time, applied.rule->shortest_lease}) {
        longest = lease.count() > 0 ? std::min(longest, lease) : longest;
    }
    return longest;
}

} // namespace

std::optional<rate_limit::Verdict> known_denial(const AppliedRule &applied,
                                                std::chrono::microseconds now) {
    const Zone &zone = *applied.rule->zone;
    const rate_limit::DenyCache cache = zone.memory.deny_cache();
    const bool may_be_known = is_certain(applied) || applied.charge->blocks();
    if (!cache.may_hold(now) || !may_be_known || !may_cache(applied)) {
        return std::nullopt;
    }
    const rate_limit::Hash hash = hash_of_denial(applied);
    const std::chrono::microseconds longest = longest_denial(applied);
    const auto denied = cache.find(hash, now, longest);
    if (!denied) {
        return std::nullopt;
    }
    const auto reset = zone.memory.live_limits().reset_time(applied.encoded_key());
    return reset.count() == 0 ? denied : cache.find(hash, now, std::min(longest, now - reset));
}

namespace {

/// Gives the rule the denial that is known. If it has shards, two of them must be known to deny.
/// Returns false if Redis has to be asked.
bool is_known_to_deny(Worker &worker, Arena &arena, const AppliedRules &before, AppliedRule &rule,
                      std::chrono::microseconds now) {
    auto denied = known_denial(rule, now);
    if (denied && denied->decision == rate_limit::Decision::denied &&
        choose_other_shard(worker, arena, before, rule)) {
        denied = known_denial(rule, now);
    }
    if (denied) {
        rule.decide(RuleResult::Source::deny_cache, *denied, now);
    }
    return denied.has_value();
}

} // namespace

std::span<AppliedRule> find_denials(Worker &worker, Arena &arena, const AppliedRules &before,
                                    std::span<AppliedRule> rules, std::chrono::microseconds now) {
    size_t known = 0;
    // Charges stay where they are, unlike those of leased rules: a denial that is known is of an
    // enforced rule and rejects the request, so no check takes them as a row.
    for (AppliedRule &rule : rules) {
        if (is_known_to_deny(worker, arena, before, rule, now)) {
            AppliedRule &place = rules[known++];
            if (&place != &rule) {
                std::swap(place, rule);
            }
        }
    }
    return rules.first(known);
}

void remember_denial(const AppliedRule &applied, const rate_limit::DenyCache::CheckTimes &times) {
    const rate_limit::Verdict *verdict = applied.verdict();
    if (verdict == nullptr || verdict->decision != rate_limit::Decision::denied ||
        !may_cache(applied)) {
        return;
    }
    const Zone &zone = *applied.rule->zone;
    if (!zone.memory.deny_cache().add(hash_of_denial(applied), *verdict, certain_for(applied),
                                      times)) {
        zone.memory.count_eviction();
    }
}

} // namespace limiter
