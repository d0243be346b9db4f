// Lists the zones and their rules, with the numbers that this host goes by.
#include "nginx_module/pages/api/actions.hpp"
#include "nginx_module/pages/api/numbers.hpp"
#include "nginx_module/util.hpp"
#include "rate_limit/text/text_writer.hpp"

namespace nginx_module {

namespace {

void write_numbers(JsonWriter &json, const RuleNumbers &numbers) {
    json.member("limit", numbers.limit);
    json.member("burst", numbers.burst);
    json.member("capacity", numbers.capacity);
}

void write_rule(JsonWriter &json, const MainConf &conf, const limiter::Rule &rule) {
    const limiter::Zone &zone = *rule.zone;
    const auto redis_now = [&zone] { return zone.backend->memory.redis_now(precise_now()); };
    const auto override = zone.memory.live_limits().find({}, rule.name, redis_now);
    json.begin_object();
    json.member("algorithm", to_string(rule.rule.quota.algorithm));
    json.member("window", rate_limit::Seconds{current_window_of(rule)});
    write_calendar(json, rule);
    write_numbers(json, numbers_of(rule, override));
    json.member("cost",
                rule.cost_text.empty() ? std::optional(rule.rule.quota.cost) : std::nullopt);
    json.member("shards", rule.rule.shards);
    json.member("dry_run", is_dry_run_everywhere(conf, rule));
    json.name("configured");
    json.begin_object();
    write_numbers(json, numbers_of(rule, std::nullopt));
    json.end_object();
    json.member("overridden", override.has_value());
    json.end_object();
}

std::string_view to_string(ShowKeys show_keys) {
    switch (show_keys) {
    case ShowKeys::on:
        return "on";
    case ShowKeys::hash:
        return "hash";
    case ShowKeys::off:
        break;
    }
    return "off";
}

void write_zone(JsonWriter &json, const MainConf &conf, const limiter::Zone &zone) {
    json.begin_object();
    json.member("context", conf.context.name);
    json.member("backend", std::string_view(zone.backend->name));
    json.member("show_keys", to_string(zone.show_keys));
    json.member("overrides", zone.memory.live_limits().count());
    json.name("rules");
    json.begin_object();
    for (const limiter::Rule *rule : zone.named_rules) {
        json.name(rule->name);
        write_rule(json, conf, *rule);
    }
    json.end_object();
    json.end_object();
}

} // namespace

ngx_int_t list_zones(ApiRequest &request) {
    JsonWriter json(request.r->pool);
    json.begin_object();
    json.member("write", location_conf(request.r).page.api == ApiAccess::write);
    json.name("zones");
    json.begin_object();
    for (const ShownLimits &limits : AllLimits()) {
        for (const auto &zone : limits.conf->zones) {
            json.name(zone->name);
            write_zone(json, *limits.conf, *zone);
        }
    }
    json.end_object();
    json.end_object();
    return send_json(request.r, json.finish());
}

} // namespace nginx_module
