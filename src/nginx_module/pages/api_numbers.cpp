#include "api_numbers.hpp"

#include <algorithm>

namespace nginx_module {

namespace {

using rate_limit::Override;
using rate_limit::Quota;

/// Returns the quota with the override's numbers in place of the rule's.
Quota overridden(const RuleConf &rule, const std::optional<Override> &override) {
    Quota quota = rule.rule.quota;
    if (override && override->limit) {
        quota.limit = *override->limit;
        rate_limit::set_by_operator(quota, override->burst.has_value(), rule.rule.shards);
    }
    if (override && override->burst && is_bucket(quota.algorithm)) {
        quota.burst = override->burst;
    }
    return quota;
}

bool is_limit_known(const RuleConf &rule, const std::optional<Override> &override) {
    return rule.limit == nullptr || (override && override->limit);
}

bool is_burst_known(const RuleConf &rule, const std::optional<Override> &override) {
    return rule.burst == nullptr || (override && override->burst);
}

} // namespace

RuleNumbers numbers_of(const RuleConf &rule, const std::optional<Override> &override) {
    const Quota quota = overridden(rule, override);
    RuleNumbers numbers;
    if (is_limit_known(rule, override)) {
        numbers.limit = quota.limit;
    }
    if (is_burst_known(rule, override)) {
        numbers.burst = quota.burst;
    }
    if (is_limit_known(rule, override) && is_burst_known(rule, override)) {
        numbers.capacity = quota.capacity();
    }
    return numbers;
}

std::optional<Quota> quota_of(const RuleConf &rule, const std::optional<Override> &override) {
    if (!numbers_of(rule, override).capacity) {
        return std::nullopt;
    }
    const Quota quota = overridden(rule, override);
    const bool is_possible = quota.limit <= rate_limit::largest_limit(quota.algorithm) &&
                             quota.refill() <= rate_limit::longest_refill;
    return is_possible ? std::optional(quota) : std::nullopt;
}

bool is_dry_run_everywhere(const MainConf &conf, const RuleConf &rule) {
    return std::ranges::none_of(conf.locations, [&](const LocationConf *location) {
        return !location->is_dry_run(rule) &&
               std::ranges::find(*location->rules, &rule) != location->rules->end();
    });
}

} // namespace nginx_module
