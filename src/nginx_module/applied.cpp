#include "applied.hpp"

#include "../rate_limit/shards.hpp"
#include "../rate_limit/text.hpp"
#include "../redis_client/arguments.hpp"
#include "request.hpp"
#include "util.hpp"

namespace nginx_module {

namespace {

Applied::Result result_before_asking(const Candidate &candidate) {
    if (candidate.is_invalid) {
        return Applied::Result::invalid;
    }
    return candidate.is_open() ? Applied::Result::no_verdict : Applied::Result::verdict;
}

uint64_t shards_of(const Applied &applied) {
    return rate_limit::shards_in_use(applied.quota, applied.rule->rule.shards);
}

std::string_view write_redis_key(const Applied &applied, uint64_t shard,
                                 rate_limit::RedisKeyBuffer &out) {
    const rate_limit::KeyFormat &format = *applied.rule->key_format;
    return applied.rule->rule.shards > 1 ? format.write(applied.key, shard, out)
                                         : format.write(applied.key, out);
}

/// What the request has charged before to the key that the charge has by now. A cost that is never
/// granted is asked for as a whole, so that Redis tells that.
uint64_t charged_before(const RequestState &state, const Applied &applied) {
    const redis_client::Charge &charge = *applied.charge;
    return charge.quota.cost <= charge.quota.capacity()
               ? state.charged_to(*applied.rule->zone, charge.redis_key)
               : 0;
}

/// Of so many. False without memory.
bool set_shard(ngx_http_request_t *r, const RequestState &state, Applied &applied, uint64_t shards,
               uint64_t shard) {
    rate_limit::RedisKeyBuffer buffer;
    const std::string_view redis_key = write_redis_key(applied, shard, buffer);
    auto *pooled = static_cast<char *>(ngx_pnalloc(r->pool, redis_key.size()));
    if (pooled == nullptr) {
        return false;
    }
    rate_limit::append(pooled, redis_key);
    applied.shard = shard;
    applied.charge->redis_key = {pooled, redis_key.size()};
    if (applied.rule->zone->backend->mode == Mode::cluster) {
        applied.charge->hash_slot = redis_client::hash_slot(applied.charge->redis_key);
    }
    applied.charge->quota = rate_limit::share_of(applied.quota, shards, shard);
    applied.charge->quota.charged = applied.quota.charged = charged_before(state, applied);
    return true;
}

} // namespace

uint64_t Applied::charged() const {
    if (!is_charged) {
        return 0;
    }
    // By now the charge's quota may be the rule's, see tell_of_rule().
    const rate_limit::Quota asked = source == Source::local
                                        ? charge->quota
                                        : rate_limit::share_of(quota, shards_of(*this), shard);
    return asked.to_charge();
}

Applied *make_applied(ngx_http_request_t *r, std::span<const Candidate> candidates) {
    auto *applied = pool_array<Applied>(r->pool, candidates.size());
    auto *charges = pool_array<redis_client::Charge>(r->pool, candidates.size());
    if (applied == nullptr || charges == nullptr) {
        return nullptr;
    }
    for (size_t i = 0; i < candidates.size(); ++i) {
        const Candidate &candidate = candidates[i];
        charges[i].quota = candidate.quota;
        charges[i].dry_run = candidate.dry_run;
        applied[i] = {.rule = candidate.rule,
                      .dry_run = candidate.dry_run,
                      .key = candidate.key,
                      .quota = candidate.quota,
                      .charge = &charges[i],
                      .shard = 0,
                      .is_other_shard = false,
                      .is_charged = false,
                      .result = result_before_asking(candidate),
                      .source =
                          candidate.is_open() ? Applied::Source::redis : Applied::Source::none,
                      .is_superseded = false,
                      .local_slots_since = {},
                      .next = nullptr};
    }
    return applied;
}

bool choose_shard(ngx_http_request_t *r, const RequestState &state, Applied &applied,
                  uint64_t chance) {
    const uint64_t shards = shards_of(applied);
    if (const Applied *before = state.last_charge(*applied.rule, applied.key)) {
        return set_shard(r, state, applied, shards, std::min(before->shard, shards - 1));
    }
    // Redis tells that it is never granted, and whether it is does not depend on the chance.
    const bool is_too_much =
        applied.quota.cost > rate_limit::smallest_capacity(applied.quota, shards);
    return set_shard(r, state, applied, shards, is_too_much ? shards - 1 : chance % shards);
}

bool set_arguments(ngx_http_request_t *r, const Applied &applied) {
    const RuleConf &rule = *applied.rule;
    if (!rule.has_variables() && applied.charge->quota.charged == 0) {
        applied.charge->arguments = &rule.arguments[rate_limit::first_alike(
            applied.quota, shards_of(applied), applied.shard)];
        return true;
    }
    auto *own = pool_array<redis_client::WireWords>(r->pool, 1);
    if (own == nullptr) {
        return false;
    }
    *own = redis_client::check_arguments(applied.charge->quota, rule.rule.aligned);
    applied.charge->arguments = own;
    return true;
}

bool choose_other_shard(ngx_http_request_t *r, const RequestState &state, Applied &applied) {
    const uint64_t shards = shards_of(applied);
    if (shards == 1 || applied.is_other_shard ||
        applied.charge->verdict.decision != rate_limit::Decision::denied) {
        return false;
    }
    const uint64_t distance = 1 + static_cast<uint64_t>(ngx_random()) % (shards - 1);
    applied.is_other_shard =
        set_shard(r, state, applied, shards, (applied.shard + distance) % shards);
    return applied.is_other_shard;
}

void tell_of_rule(const Applied &applied) {
    redis_client::Charge &charge = *applied.charge;
    if (applied.rule->rule.shards > 1 && applied.verdict() != nullptr &&
        applied.source != Applied::Source::local) {
        charge.verdict = rate_limit::verdict_of_share(applied.quota, charge.quota, charge.verdict);
        charge.quota = applied.quota;
    }
}

} // namespace nginx_module
