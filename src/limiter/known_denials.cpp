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

/// Returns for how long a block is known to hold, and the client to pass when it ends. When a block
/// has ended Redis is to be asked, even if the rule still denies: its next denial begins another
/// block.
std::chrono::microseconds certain_of_block(const AppliedRule &applied) {
    const std::chrono::microseconds beside = applied.rule->wait_beside_block;
    if (beside.count() > 0 && applied.has_own_numbers) {
        return std::chrono::microseconds{0}; // an operator's numbers may hold for the others, too
    }
    // What others are charged before that has come back when the block ends.
    return applied.charge->blocked_for - beside;
}

/// Returns for how long a denial and its times are known to hold, which may be none: until somebody
/// else may be charged, for whom the client has to wait longer.
std::chrono::microseconds certain_for(const AppliedRule &applied) {
    const redis_client::Charge &charge = *applied.charge;
    const rate_limit::Verdict &verdict = charge.verdict;
    if (charge.blocked_for.count() > 0) {
        return certain_of_block(applied);
    }
    if (!is_certain(applied)) {
        return std::chrono::microseconds{0};
    }
    const auto &least_charge = applied.rule->least_charge;
    const bool returns_at_once = rate_limit::traits_of(charge.quota.algorithm).returns_at_once;
    if ((least_charge && charge.quota.cost <= *least_charge) ||
        (returns_at_once && verdict.remaining == 0)) {
        return verdict.retry_after; // whoever passes before needs as much, or delays nobody
    }
    return least_charge && verdict.remaining < *least_charge ? verdict.next_unit
                                                             : std::chrono::microseconds{0};
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

namespace {

/// Returns for how long find_denials() will find the rule's denial, which may be 0.
std::chrono::microseconds known_for(const AppliedRule &applied) {
    return may_cache(applied) ? std::min(certain_for(applied), longest_denial(applied))
                              : std::chrono::microseconds{0};
}

/// Whether a client that waits for the one rule is then denied by the other one. Nobody knows when
/// permits come back.
bool denies_longer(const AppliedRule &other, const AppliedRule &than) {
    return other.rejects() && other.verdict() != nullptr &&
           !rate_limit::holds_permits(other.quota.algorithm) &&
           (other.verdict()->decision == rate_limit::Decision::never ||
            other.verdict()->retry_after > than.verdict()->retry_after);
}

void remember_denial(const AppliedRule &applied, std::chrono::microseconds certain_for,
                     const rate_limit::DenyCache::CheckTimes &times) {
    const Zone &zone = *applied.rule->zone;
    if (!zone.memory.deny_cache().add(hash_of_denial(applied), *applied.verdict(), certain_for,
                                      times)) {
        zone.memory.count_eviction();
    }
}

} // namespace

void remember_denials(std::span<const AppliedRule> rules,
                      const rate_limit::DenyCache::CheckTimes &times) {
    for (const AppliedRule &applied : rules) {
        const rate_limit::Verdict *verdict = applied.verdict();
        if (verdict == nullptr || verdict->decision != rate_limit::Decision::denied ||
            !may_cache(applied)) {
            continue;
        }
        // A request that is known to be denied is told of the rules alone that are known to deny.
        std::chrono::microseconds certain = certain_for(applied);
        for (const AppliedRule &other : rules) {
            if (denies_longer(other, applied)) {
                certain = std::min(certain, known_for(other));
            }
        }
        remember_denial(applied, certain, times);
    }
}

} // namespace limiter
