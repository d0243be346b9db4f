#include "applied.hpp"

#include "../redis_client/arguments.hpp"
#include "util.hpp"

#include <algorithm>

namespace nginx_module {

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
        applied[i] = {
            .rule = candidate.rule,
            .dry_run = candidate.dry_run,
            .key = candidate.key,
            .charge = &charges[i],
            .result = candidate.is_invalid ? Applied::Result::invalid : Applied::Result::verdict,
            .source = candidate.is_open() ? Applied::Source::redis : Applied::Source::none,
            .local_slots_since = {},
            .next = nullptr};
    }
    return applied;
}

bool set_redis_key(ngx_http_request_t *r, const Applied &applied) {
    rate_limit::RedisKeyBuffer buffer;
    const std::string_view redis_key = applied.rule->key_format->write(applied.key, buffer);
    auto *pooled = static_cast<char *>(ngx_pnalloc(r->pool, redis_key.size()));
    if (pooled == nullptr) {
        return false;
    }
    std::ranges::copy(redis_key, pooled);
    applied.charge->redis_key = {pooled, redis_key.size()};
    if (applied.rule->zone->backend->mode == Mode::cluster) {
        applied.charge->hash_slot = redis_client::hash_slot(applied.charge->redis_key);
    }
    return true;
}

bool set_arguments(ngx_http_request_t *r, const Applied &applied) {
    const RuleConf &rule = *applied.rule;
    applied.charge->arguments = &rule.arguments;
    if (rule.has_variables()) {
        auto *own = pool_array<redis_client::WireWords>(r->pool, 1);
        if (own == nullptr) {
            return false;
        }
        *own = redis_client::check_arguments(applied.charge->quota, rule.rule.aligned);
        applied.charge->arguments = own;
    }
    return true;
}

} // namespace nginx_module
