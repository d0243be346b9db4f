// The directive redis_rate_limit_zone.
#include "nginx_module/conf/configuration.hpp"
#include "nginx_module/conf/directive_readers.hpp"
#include "nginx_module/conf/parameters.hpp"
#include "nginx_module/memory/shared_memory.hpp"
#include "nginx_module/random_bytes.hpp"
#include "nginx_module/util.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace nginx_module {

namespace {

bool compile_key(ngx_conf_t *cf, const Context &context, ZoneConf &zone, const ngx_str_t &text) {
    zone.set_key(view(text));
    zone.key_text = text;
    zone.key = context.compile(cf, text);
    if (zone.key == nullptr) {
        return false;
    }
    if (text.len == 0) {
        ngx_conf_log_error(
            NGX_LOG_WARN, cf, 0,
            "%s: key \"\" is always empty, so that no request is counted, expected a "
            "key such as $remote_addr",
            zone_directive);
    }
    return true;
}

char *refuse_small(ngx_conf_t *cf, std::span<const std::string_view> values) {
    static constexpr std::string_view parameter = "zone=";
    const auto zone = std::ranges::find_if(
        values, [](std::string_view value) { return value.starts_with(parameter); });
    const std::string expected =
        "a size of at least " + std::to_string(8 * ngx_pagesize / 1024) + "k";
    return refuse(cf, zone_directive, "zone", zone->substr(parameter.size()), expected);
}

/// Gives the zone's rules their counters, once there is shared memory. The counters of the running
/// configuration are not given to other rules, because the new configuration may still be refused.
void claim_counters(const ZoneConf &zone, const ZoneConf *running) {
    rate_limit::RuleCounterTable counters = zone.memory.rule_counters();
    const auto hash_of = [&](const limiter::Rule *rule) {
        return rate_limit::hash_of(zone.memory.seed(), rule->name);
    };
    counters.begin_generation();
    if (running != nullptr) {
        for (const limiter::Rule *rule : running->named_rules) {
            counters.keep(hash_of(rule));
        }
    }
    for (limiter::Rule *rule : zone.named_rules) {
        rule->counters = &counters.claim(hash_of(rule));
    }
}

/// A counter is found by the text of its key: with another key it counts on for whoever has this
/// text now.
void warn_of_another_key(const ZoneConf &zone, const ZoneConf &running, ngx_log_t *log) {
    const ngx_str_t &key = zone.key_text;
    const ngx_str_t &old_key = running.key_text;
    if (view(key) != view(old_key)) {
        ngx_log_error(
            NGX_LOG_WARN, log, 0,
            "%s: the key \"%V\" of the zone \"%*s\" was \"%V\" before this reload: "
            "counters, denials and overrides of the old one hold for clients whose key has "
            "the same text now, expected another name for a zone with another key",
            zone_directive, &key, zone.name.size(), zone.name.data(), &old_key);
    }
}

/// A counter's key has the calendar by which its windows begin and end, and the name of the rule
/// does not tell that there is another one.
void warn_of_other_calendars(const ZoneConf &zone, const ZoneConf &running, ngx_log_t *log) {
    for (const limiter::Rule *rule : zone.named_rules) {
        const auto was = std::ranges::find(running.named_rules, rule->name, &limiter::Rule::name);
        const rate_limit::Calendar *calendar = rule->rule.calendar.get();
        if (calendar == nullptr || was == running.named_rules.end() ||
            (*was)->rule.calendar == nullptr || (*was)->rule.calendar->name() == calendar->name()) {
            continue;
        }
        const std::string_view unit = to_string(calendar->parts().unit);
        ngx_log_error(NGX_LOG_WARN, log, 0,
                      "%s: the rule \"%s\" of the zone \"%s\" has %s, and had %s "
                      "before this reload: it has other counters now, in which all clients begin "
                      "a fresh %*s, expected the old one if what they have used is to count",
                      rule_directive, rule->name.c_str(), zone.name.c_str(),
                      calendar->parts().parameters().c_str(),
                      (*was)->rule.calendar->parts().parameters().c_str(), unit.size(),
                      unit.data());
    }
}

/// Lays out shared memory that is new. Returns false if there is no room or no random number; the
/// log says so.
bool begin_memory(ngx_shm_zone_t *shared, ZoneConf &zone) {
    size_t size = 0;
    void *memory = take_shared_memory(shared, size);
    if (memory == nullptr) {
        return false;
    }
    rate_limit::HashSeed seed{};
    if (!openssl_random_bytes({reinterpret_cast<unsigned char *>(&seed), sizeof(seed)})) {
        ngx_log_error(NGX_LOG_EMERG, shared->shm.log, 0,
                      "redis_rate_limit_zone: no random numbers");
        return false;
    }
    zone.memory.begin({static_cast<std::byte *>(memory), size}, zone.mutex, shared->shm.size, seed,
                      precise_now());
    return true;
}

/// `old` is the same zone of the running configuration, or null.
ngx_int_t init_memory(ngx_shm_zone_t *shared, void *old) noexcept {
    auto &zone = *static_cast<ZoneConf *>(shared->data);
    const auto *running = static_cast<const ZoneConf *>(old);
    zone.mutex.set_memory(*shared);
    if (running != nullptr) {
        zone.memory.take_over(running->memory, zone.mutex);
        warn_of_another_key(zone, *running, shared->shm.log);
        warn_of_other_calendars(zone, *running, shared->shm.log);
    } else if (!begin_memory(shared, zone)) {
        return NGX_ERROR;
    }
    claim_counters(zone, running);
    return NGX_OK;
}

/// Adds the zone's shared memory. Its name has a prefix, because a user who moves from limit_req
/// may still have a limit_req_zone of the same name.
bool add_memory(ngx_conf_t *cf, const Context &context, ZoneConf &zone) {
    ngx_shm_zone_t *shared =
        add_shared_memory(cf, context.module, "redis_rate_limit:" + zone.name, zone.size);
    if (shared == nullptr) {
        return false;
    }
    shared->data = &zone;
    shared->init = init_memory;
    return true;
}

} // namespace

char *set_zone(ngx_conf_t *cf, ngx_command_t * /*command*/, void *conf) noexcept {
    auto &main = *static_cast<MainConf *>(conf);
    const auto values = values_of(cf);
    auto zone = std::make_unique<ZoneConf>(cf);
    if (const auto refusal = rate_limit::read_zone(values, *zone)) {
        return result_of(cf, zone_directive, refusal);
    }
    if (zone->size < 8 * ngx_pagesize) {
        return refuse_small(cf, values);
    }
    if (main.zone(zone->name) != nullptr) {
        return refuse(cf, zone_directive, "zone", zone->name, "each zone once");
    }
    if (!compile_key(cf, main.context, *zone, words_of(cf)[1]) ||
        !add_memory(cf, main.context, *zone)) {
        return static_cast<char *>(NGX_CONF_ERROR);
    }
    main.zones.push_back(std::move(zone));
    return NGX_CONF_OK;
}

} // namespace nginx_module
