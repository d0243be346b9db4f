#include "limiter/shard_choice.hpp"

#include "rate_limit/rule/shards.hpp"
#include "redis_client/script/arguments.hpp"

#include <algorithm>

namespace limiter {

namespace {

uint64_t shards_of(const AppliedRule &applied) {
    return rate_limit::shards_in_use(applied.quota, applied.rule->rule.shards);
}

std::string_view write_redis_key(const AppliedRule &applied, uint64_t shard,
                                 rate_limit::RedisKeyBuffer &out) {
    const rate_limit::KeyFormat &format = *applied.rule->key_format;
    return applied.rule->rule.shards > 1 ? format.write(applied.key, shard, out)
                                         : format.write(applied.key, out);
}

/// Returns what the request has already charged to the charge's Redis key. Returns 0 for a cost
/// that is never granted: it is asked for as a whole, so that Redis says so.
uint64_t charged_before(const AppliedRules &before, const AppliedRule &applied) {
    const redis_client::Charge &charge = *applied.charge;
    return charge.quota.cost <= charge.quota.capacity()
               ? before.charged_to(*applied.rule->zone, charge.redis_key)
               : 0;
}

/// Gives the charge one of the rule's shards. Returns false if memory ran out.
bool set_shard(Arena &arena, const AppliedRules &before, AppliedRule &applied, uint64_t shards,
               uint64_t shard) {
    rate_limit::RedisKeyBuffer buffer;
    const auto redis_key = arena.copy(write_redis_key(applied, shard, buffer));
    if (!redis_key) {
        return false;
    }
    applied.shard = shard;
    applied.charge->redis_key = *redis_key;
    if (applied.rule->zone->backend->traits().has_hash_slots) {
        applied.charge->hash_slot = redis_client::hash_slot(applied.charge->redis_key);
    }
    applied.charge->quota = rate_limit::share_of(applied.quota, shards, shard);
    applied.charge->quota.charged = applied.quota.charged = charged_before(before, applied);
    return true;
}

/// Gives the charge its shard, see choose_shards(). `chance` is a random number.
bool choose_shard(Arena &arena, const AppliedRules &before, AppliedRule &applied, uint64_t chance) {
    const uint64_t shards = shards_of(applied);
    if (const AppliedRule *last = before.last_charge(*applied.rule, applied.key)) {
        return set_shard(arena, before, applied, shards, std::min(last->shard, shards - 1));
    }
    return set_shard(arena, before, applied, shards,
                     rate_limit::choose_shard(applied.quota, shards, chance));
}

} // namespace

bool choose_shards(Worker &worker, Arena &arena, const AppliedRules &before,
                   std::span<AppliedRule> rules) {
    // All rules use the same number: shards of the same number are in one hash slot of a cluster.
    const auto has_shards = [](const AppliedRule &rule) { return rule.rule->rule.shards > 1; };
    const uint64_t chance = std::ranges::any_of(rules, has_shards) ? worker.world.random() : 0;
    return std::ranges::all_of(
        rules, [&](AppliedRule &rule) { return choose_shard(arena, before, rule, chance); });
}

bool choose_other_shard(Worker &worker, Arena &arena, const AppliedRules &before,
                        AppliedRule &applied) {
    const uint64_t shards = shards_of(applied);
    if (shards == 1) {
        return false;
    }
    const uint64_t distance = 1 + worker.world.random() % (shards - 1);
    return set_shard(arena, before, applied, shards, (applied.shard + distance) % shards);
}

bool set_arguments(Arena &arena, const AppliedRule &applied) {
    const Rule &rule = *applied.rule;
    const redis_client::Charge &charge = *applied.charge;
    if (!applied.has_own_numbers && charge.quota.charged == 0) {
        applied.charge->arguments = charge.may_lease
                                        ? &*rule.leasing_arguments
                                        : &rule.arguments[rate_limit::first_alike(
                                              applied.quota, shards_of(applied), applied.shard)];
        return true;
    }
    auto *own = arena.array<redis_client::WireWords>(1);
    if (own == nullptr) {
        return false;
    }
    *own = charge.may_lease ? redis_client::leasing_arguments(charge.quota, rule.rule.aligned,
                                                              applied.lease_time)
                            : redis_client::check_arguments(charge.quota, rule.rule.aligned);
    applied.charge->arguments = own;
    return true;
}

void scale_to_rule(const AppliedRule &applied) {
    if (applied.rule->rule.shards > 1 && applied.verdict() != nullptr &&
        !applied.is_decided_by(RuleResult::Source::local)) {
        redis_client::Charge &charge = *applied.charge;
        charge.verdict = rate_limit::verdict_of_share(applied.quota, charge.quota, charge.verdict);
    }
}

} // namespace limiter
