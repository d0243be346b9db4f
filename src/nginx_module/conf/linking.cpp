#include "nginx_module/conf/linking.hpp"

#include "limiter/linking.hpp"
#include "nginx_module/conf/backend_completion.hpp"
#include "nginx_module/conf/warnings.hpp"
#include "nginx_module/memory/backend_memory.hpp"
#include "nginx_module/memory/shared_memory.hpp"
#include "nginx_module/util.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

namespace nginx_module {

namespace {

bool refuse_unknown(ngx_conf_t *cf, const Position &position, const char *directive,
                    const char *what, std::string_view name) {
    ngx_str_t unknown = to_ngx(name);
    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "%s: unknown %s \"%V\", expected one that a redis_rate_limit_%s line defines, "
                  "in %V:%ui",
                  directive, what, &unknown, what, &position.file, position.line);
    return false;
}

/// Returns a hash that tells one Redis from another, also after a reload.
uint64_t identity_of(const BackendConf &backend) {
    std::string text =
        std::to_string(backend.session.database) + " " + backend.sentinel.master_name;
    for (const redis_client::ServerAddress &server : backend.servers) {
        text += " " + server.host + ":" + std::to_string(server.port);
        if (server.is_local()) {
            text += server.addresses.front().text();
        }
    }
    return rate_limit::hash_of({}, text).low;
}

bool link_zone(ngx_conf_t *cf, MainConf &conf, ZoneConf &zone) {
    const std::string_view name =
        zone.backend_name.empty() ? rate_limit::default_backend : zone.backend_name;
    BackendConf *backend = conf.backend(name);
    if (backend == nullptr && name == rate_limit::default_backend) {
        backend = &add_default_backend(conf);
    }
    if (backend == nullptr) {
        return refuse_unknown(cf, zone.position, "redis_rate_limit_zone", "backend", name);
    }
    backend->identity = identity_of(*backend);
    if (!backend->live_store) {
        backend->live_store.emplace(backend->prefix);
    }
    zone.backend = backend;
    return true;
}

bool add_memory(ngx_conf_t *cf, const Context &context, BackendConf &backend) {
    ngx_shm_zone_t *shared = add_shared_memory(
        cf, context.module, "redis_rate_limit_backend:" + backend.name, backend_memory_size());
    if (shared == nullptr) {
        return false;
    }
    shared->data = &backend;
    shared->init = [](ngx_shm_zone_t *memory, void *old) noexcept -> ngx_int_t {
        const auto *running = static_cast<const BackendConf *>(old);
        return attach(static_cast<BackendConf *>(memory->data)->memory, memory,
                      running != nullptr ? &running->memory : nullptr);
    };
    return true;
}

bool link_rule(ngx_conf_t *cf, const MainConf &conf, RuleConf &rule) {
    const ZoneConf *zone = conf.zone(rule.rule.zone);
    if (zone == nullptr) {
        return refuse_unknown(cf, rule.position, "redis_rate_limit", "zone", rule.rule.zone);
    }
    rule.complete(*zone);
    return true;
}

/// What the rules of one name may do instead, where it is no other name with a counter of its own.
/// A zone of limit_req that is used with and without `nodelay` becomes two such rules.
const char *other_way_out(rate_limit::Algorithm one, rate_limit::Algorithm other) {
    const auto is_of_limit_req = [](rate_limit::Algorithm algorithm) {
        return rate_limit::traits_of(algorithm).burst == rate_limit::Burst::above_one;
    };
    return is_of_limit_req(one) && is_of_limit_req(other)
               ? ", or algorithm=leaky_bucket for all of them, with delay= as large as burst= "
                 "where no request is to be held back"
               : "";
}

/// Joins rules of a zone that have the same name, because metrics and headers show them as one
/// rule. Returns false if their algorithms or calendars differ; the log says so.
bool join_names(ngx_conf_t *cf, const MainConf &conf) {
    std::map<std::pair<std::string_view, std::string_view>, limiter::Rule *> named;
    rate_limit::CalendarsOfNames calendars;
    for (const auto &rule : conf.rules) {
        const auto [known, is_new] = named.try_emplace({rule->rule.zone, rule->name}, rule.get());
        rule->first_of_name = known->second;
        if (is_new) {
            conf.zone(rule->rule.zone)->named_rules.push_back(rule.get());
        }
        const rate_limit::Algorithm algorithm = rule->first_of_name->rule.quota.algorithm;
        if (algorithm != rule->rule.quota.algorithm) {
            ngx_str_t name = to_ngx(rule->name);
            ngx_str_t first = to_ngx(to_string(algorithm));
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "redis_rate_limit: invalid name \"%V\", expected algorithm=%V as its "
                          "other rules of the zone have%s, or another name= in %V:%ui",
                          &name, &first, other_way_out(algorithm, rule->rule.quota.algorithm),
                          &rule->position.file, rule->position.line);
            return false;
        }
        if (const auto refusal = calendars.add(rule->rule)) {
            ngx_str_t why = to_ngx(*refusal);
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0, "redis_rate_limit: %V in %V:%ui", &why,
                          &rule->position.file, rule->position.line);
            return false;
        }
    }
    return true;
}

/// Warns of rules that want windows of different ends for one counter. Redis stores a window's end,
/// so the rule that begins a window decides for all of them.
void warn_of_other_windows(ngx_conf_t *cf, const RuleConf &rule) {
    ngx_str_t name = to_ngx(rule.name);
    ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                  "redis_rate_limit: rules share the counter \"%V\" of zone \"%s\", some aligned "
                  "and some not, so that its windows are either, expected another name= in %V:%ui",
                  &name, rule.rule.zone.c_str(), &rule.position.file, rule.position.line);
}

/// Checks what rules that share a counter must have in common. Returns false if they differ in
/// their shards; the log says so.
bool check_counters(ngx_conf_t *cf, const MainConf &conf) {
    struct Counter {
        const rate_limit::Rule *first;
        bool is_warned = false; // the log has warned of its windows
    };
    std::map<decltype(std::declval<rate_limit::Rule>().counter()), Counter> counters;
    for (const auto &rule : conf.rules) {
        Counter &counter =
            counters.try_emplace(rule->rule.counter(), Counter{&rule->rule}).first->second;
        if (rule->rule.shards != counter.first->shards) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "redis_rate_limit: invalid shards \"%uL\", expected shards=%uL as the "
                          "other rules of its counter have, or another name= in %V:%ui",
                          rule->rule.shards, counter.first->shards, &rule->position.file,
                          rule->position.line);
            return false;
        }
        if (rule->rule.aligned != counter.first->aligned && !counter.is_warned) {
            counter.is_warned = true;
            warn_of_other_windows(cf, *rule);
        }
    }
    return true;
}

/// Whether the zone has room for the counters of its rules. If not, the log says so.
bool check_size(ngx_conf_t *cf, const ZoneConf &zone) {
    const size_t rules = zone.named_rules.size();
    if (rules <= limiter::ZoneMemory::most_rules(zone.size)) {
        return true;
    }
    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "redis_rate_limit_zone: invalid zone \"%s:%uzk\", expected a size of at least "
                  "%uzk for its %uz rules in %V:%ui",
                  zone.name.c_str(), zone.size / 1024, limiter::ZoneMemory::size_for(rules) / 1024,
                  rules, &zone.position.file, zone.position.line);
    return false;
}

void link_levels(const MainConf &conf) {
    std::vector<limiter::Rule *> rules;
    std::ranges::transform(conf.rules, std::back_inserter(rules), &std::unique_ptr<RuleConf>::get);
    std::vector<limiter::Level> levels;
    for (const LevelConf *conf_level : conf.levels) { // many inherit the same rules
        const limiter::Level level = conf_level->level();
        const auto is_known = [&](const limiter::Level &known) {
            return &known.rules == &level.rules && known.is_dry_run == level.is_dry_run;
        };
        if (std::ranges::none_of(levels, is_known)) {
            levels.push_back(level);
        }
    }
    limiter::link_rules(
        rules, levels, [&](const limiter::Rule &rule) -> auto & {
            return conf.backends[rule.zone->backend->index]->session;
        });
}

} // namespace

bool link_configuration(ngx_conf_t *cf, MainConf &conf) {
    const auto look_up = [&, resolver = conf.context.resolver(cf)](const auto &backend) {
        return look_up_servers(cf, *backend, resolver);
    };
    std::vector<rate_limit::RuleParameters *> rules;
    for (const auto &rule : conf.rules) {
        rules.push_back(rule.get());
    }
    rate_limit::decide_other_limits(rules);
    const auto link_zones = [&](const auto &zone) { return link_zone(cf, conf, *zone); };
    const auto link_rules = [&](const auto &rule) { return link_rule(cf, conf, *rule); };
    const auto add_memories = [&](const auto &backend) {
        return add_memory(cf, conf.context, *backend);
    };
    const auto has_room = [&](const auto &zone) { return check_size(cf, *zone); };
    if (!std::ranges::all_of(conf.zones, link_zones) ||
        !std::ranges::all_of(conf.rules, link_rules) || !join_names(cf, conf) ||
        !check_counters(cf, conf) || !std::ranges::all_of(conf.zones, has_room) ||
        !std::ranges::all_of(conf.backends, look_up) ||
        !std::ranges::all_of(conf.backends, add_memories)) {
        return false;
    }
    link_levels(conf);
    warn_of_zones(cf, conf);
    return true;
}

} // namespace nginx_module
