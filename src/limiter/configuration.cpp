#include "limiter/configuration.hpp"

#include "rate_limit/rule/leasing.hpp"
#include "rate_limit/text/client_network.hpp"
#include "redis_client/script/arguments.hpp"

namespace limiter {

void Zone::set_key(std::string_view text) {
    const std::string variable = rate_limit::variable_in(text);
    const auto bits = rate_limit::network_bits_of(variable);
    key_form = bits                                          ? KeyForm::network
               : variable == rate_limit::variable_of_bytes   ? KeyForm::address_bytes
               : variable == rate_limit::variable_of_address ? KeyForm::address
                                                             : KeyForm::text;
    key_network_bits = bits.value_or(0);
    cuts_key = rate_limit::has_text_variables(text);
}

rate_limit::TopKeys::Kept Zone::kept_top_keys() const {
    if (!has_top_keys || show_keys == rate_limit::ShowKeys::off) {
        return rate_limit::TopKeys::Kept::nothing;
    }
    return show_keys == rate_limit::ShowKeys::hash ? rate_limit::TopKeys::Kept::hashes
                                                   : rate_limit::TopKeys::Kept::keys;
}

void Rule::complete(const Zone &its_zone) {
    zone = &its_zone;
    key_format.emplace(its_zone.backend->prefix, rule);
    name = rule.name();
    limit_label = shown_limit();
    arguments = redis_client::arguments_of_shards(rule);
    if (!may_lease()) {
        return;
    }
    lease_time = rate_limit::lease_time(rule.quota, rule.lease);
    leasing_arguments = redis_client::leasing_arguments(rule.quota, rule.aligned, lease_time);
    rate_limit::Quota nothing = rule.quota;
    nothing.cost = 0;
    fetch_arguments = redis_client::leasing_arguments(nothing, rule.aligned, lease_time);
}

bool are_asked_together(const Rule &rule, const Rule &other) {
    const redis_client::BackendSettings *backend = rule.zone->backend;
    if (&rule == &other || backend != other.zone->backend || !backend->traits().has_hash_slots) {
        return backend == other.zone->backend;
    }
    return rule.zone == other.zone && rule.rule.shards == 1 && other.rule.shards == 1;
}

} // namespace limiter
