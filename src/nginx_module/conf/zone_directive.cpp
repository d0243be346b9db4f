// The directive redis_rate_limit_zone.
#include "../../rate_limit/client_network.hpp"
#include "../../rate_limit/text.hpp"
#include "../memory/shared_memory.hpp"
#include "configuration.hpp"
#include "directives.hpp"
#include "parameters.hpp"

#include <algorithm>
#include <memory>

namespace nginx_module {

namespace {

constexpr const char *directive = "redis_rate_limit_zone";

const char *set_zone_name_and_size(ngx_conf_t *cf, ZoneConf &zone, std::string_view value) {
    const size_t colon = value.find(':');
    if (colon == std::string_view::npos) {
        return "name:size";
    }
    zone.name = value.substr(0, colon);
    if (!rate_limit::is_name(zone.name)) {
        return expected_name;
    }
    ngx_str_t size_text = to_ngx(value.substr(colon + 1));
    const ssize_t size = ngx_parse_size(&size_text);
    if (size == NGX_ERROR) {
        return "a size such as 10m";
    }
    const size_t smallest = 8 * ngx_pagesize;
    if (static_cast<size_t>(size) < smallest) {
        ngx_str_t shown = to_ngx(value);
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "%s: invalid zone \"%V\", expected a size of at least %uzk", directive,
                           &shown, smallest / 1024);
        return already_logged;
    }
    zone.size = static_cast<size_t>(size);
    return nullptr;
}

const Parameter<ZoneConf> zone_parameters[] = {
    {"zone", set_zone_name_and_size, Is::required},
    {"backend",
     [](ngx_conf_t *, ZoneConf &zone, std::string_view value) -> const char * {
         zone.backend_name = value;
         return rate_limit::is_name(value) ? nullptr : expected_name;
     }},
    {"on_error",
     [](ngx_conf_t *, ZoneConf &zone, std::string_view value) -> const char * {
         zone.on_error = value == "closed" ? OnError::closed
                         : value == "open" ? OnError::open
                                           : OnError::local;
         const bool is_known = value == "local" || value == "open" || value == "closed";
         return is_known ? nullptr : "local, open or closed";
     }},
    {"local_limit",
     [](ngx_conf_t *, ZoneConf &zone, std::string_view value) -> const char * {
         const bool has_sign = value.ends_with('%');
         const auto number =
             rate_limit::parse_whole_number(value.substr(0, value.size() - has_sign), 100);
         zone.local_limit_percent = number.value_or(0);
         return has_sign && number && *number > 0 ? nullptr : "1% to 100%";
     }},
    {"deny_cache",
     [](ngx_conf_t *, ZoneConf &zone, std::string_view value) -> const char * {
         if (value == "on") {
             return nullptr;
         }
         zone.deny_cache = value == "off" ? std::chrono::milliseconds{0} : parse_time(value);
         const bool in_range =
             zone.deny_cache.count() > 0 && zone.deny_cache <= rate_limit::longest_window;
         return in_range || value == "off" ? nullptr : "on, off or a time from 1ms to 366d";
     }},
    {"top_keys",
     [](ngx_conf_t *, ZoneConf &zone, std::string_view value) -> const char * {
         zone.has_top_keys = value == "on";
         return value == "on" || value == "off" ? nullptr : "on or off";
     }},
    {"show_keys",
     [](ngx_conf_t *, ZoneConf &zone, std::string_view value) -> const char * {
         zone.show_keys = value == "hash"  ? ShowKeys::hash
                          : value == "off" ? ShowKeys::off
                                           : ShowKeys::on;
         const bool is_known = value == "on" || value == "hash" || value == "off";
         return is_known ? nullptr : "on, hash or off";
     }},
};

/// Returns the name of the variable that the text begins with: `$name` or `${name}`. If anything
/// stands beside it, it is a part of what is returned, and so that is no name. Returns an empty
/// text if there is no variable.
std::string_view variable_in(std::string_view text) {
    if (text.starts_with("${") && text.ends_with('}')) {
        return text.substr(2, text.size() - 3);
    }
    return text.substr(text.starts_with('$') ? 1 : text.size());
}

bool compile_key(ngx_conf_t *cf, ZoneConf &zone, const ngx_str_t &text) {
    const std::string_view variable = variable_in(view(text));
    zone.key_is_binary_address = variable == "binary_remote_addr";
    zone.key_network_bits = rate_limit::network_bits_of(variable);
    if (!compile_value(cf, text, zone.key)) {
        return false;
    }
    if (zone.key.lengths == nullptr && zone.key.value.len == 0) {
        ngx_conf_log_error(
            NGX_LOG_WARN, cf, 0,
            "%s: key \"\" is always empty, so that no request is counted, expected a "
            "key such as $remote_addr",
            directive);
    }
    return true;
}

/// Gives the zone's rules their counters, once there is shared memory. The counters of the running
/// configuration are not given to other rules, because the new configuration may still be refused.
void claim_counters(const ZoneConf &zone, const ZoneConf *running) {
    rate_limit::RuleCounterTable counters = zone.memory.rule_counters();
    const auto hash_of = [&](const RuleConf *rule) {
        return rate_limit::hash_of(zone.memory.seed(), rule->name);
    };
    counters.begin_generation();
    if (running != nullptr) {
        for (const RuleConf *rule : running->named_rules) {
            counters.keep(hash_of(rule));
        }
    }
    for (RuleConf *rule : zone.named_rules) {
        rule->counters = &counters.claim(hash_of(rule));
    }
}

ngx_int_t init_memory(ngx_shm_zone_t *shared, void *old) noexcept {
    auto &zone = *static_cast<ZoneConf *>(shared->data);
    const auto *running = static_cast<const ZoneConf *>(old);
    const ngx_int_t result =
        zone.memory.attach(shared, running != nullptr ? &running->memory : nullptr);
    if (result == NGX_OK) {
        claim_counters(zone, running);
    }
    return result;
}

/// Adds the zone's shared memory. Its name has a prefix, because a user who moves from limit_req
/// may still have a limit_req_zone of the same name.
bool add_memory(ngx_conf_t *cf, ZoneConf &zone) {
    ngx_shm_zone_t *shared = add_shared_memory(cf, "redis_rate_limit:" + zone.name, zone.size);
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
    const auto words = words_of(cf);
    const auto is_zone = [](const ngx_str_t &word) { return view(word).starts_with("zone="); };
    if (is_zone(words[1]) && std::ranges::count_if(words, is_zone) == 1) {
        return refuse(cf, directive, "key", view(words[1]),
                      "a key such as $remote_addr before the parameters");
    }
    auto zone = std::make_unique<ZoneConf>(cf);
    char *result =
        set_parameters<ZoneConf>(cf, directive, zone_parameters, words.subspan(2), *zone);
    if (result != NGX_CONF_OK) {
        return result;
    }
    if (main.zone(zone->name) != nullptr) {
        return refuse(cf, directive, "zone", zone->name, "each zone once");
    }
    if (!compile_key(cf, *zone, words[1]) || !add_memory(cf, *zone)) {
        return static_cast<char *>(NGX_CONF_ERROR);
    }
    main.zones.push_back(std::move(zone));
    return NGX_CONF_OK;
}

} // namespace nginx_module
