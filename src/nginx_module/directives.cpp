#include "directives.hpp"

#include "../rate_limit/parse.hpp"
#include "conf.hpp"
#include "parameters.hpp"

#include <memory>
#include <optional>
#include <string>

namespace nginx_module {

namespace {

char *refuse_duplicate(ngx_conf_t *cf, const char *directive) {
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%s: expected once on a level", directive);
    return static_cast<char *>(NGX_CONF_ERROR);
}

// --- redis_rate_limit_zone

constexpr const char *zone_directive = "redis_rate_limit_zone";

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
                           "%s: invalid zone \"%V\", expected a size of at least %uzk",
                           zone_directive, &shown, smallest / 1024);
        return already_told;
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
         zone.on_error = value == "closed" ? OnError::closed : OnError::open;
         return value == "open" || value == "closed" ? nullptr : "open or closed";
     }},
};

bool compile_key(ngx_conf_t *cf, ZoneConf &zone, const ngx_str_t &text) {
    ngx_str_t value = text;
    ngx_http_compile_complex_value_t compile{};
    compile.cf = cf;
    compile.value = &value;
    compile.complex_value = &zone.key;
    zone.key_is_binary_address =
        view(text) == "$binary_remote_addr" || view(text) == "${binary_remote_addr}";
    return ngx_http_compile_complex_value(&compile) == NGX_OK;
}

/// The shared memory's name keeps clear of nginx's own zones, such as that of a limit_req_zone of
/// the same name from which a user is moving.
bool add_shared_memory(ngx_conf_t *cf, const ZoneConf &zone) {
    const std::string name = "redis_rate_limit:" + zone.name;
    ngx_str_t pooled{name.size(), static_cast<u_char *>(ngx_pnalloc(cf->pool, name.size() + 1))};
    if (pooled.data == nullptr) {
        return false;
    }
    ngx_cpystrn(pooled.data, to_ngx(name).data, name.size() + 1);
    ngx_shm_zone_t *shared =
        ngx_shared_memory_add(cf, &pooled, zone.size, &ngx_http_redis_rate_limit_module);
    if (shared == nullptr) {
        return false;
    }
    shared->init = [](ngx_shm_zone_t *, void *) noexcept -> ngx_int_t { return NGX_OK; };
    return true;
}

// --- redis_rate_limit

constexpr const char *rule_directive = "redis_rate_limit";
constexpr const char *expected_number = "a whole number from 0 to 1000000000";

const Parameter<rate_limit::Rule> rule_parameters[] = {
    {"zone",
     [](ngx_conf_t *, rate_limit::Rule &rule, std::string_view value) -> const char * {
         rule.zone = value;
         return rate_limit::is_name(value) ? nullptr : expected_name;
     },
     Is::required},
    {"algorithm",
     [](ngx_conf_t *, rate_limit::Rule &rule, std::string_view value) -> const char * {
         const auto algorithm = rate_limit::algorithm_named(value);
         rule.algorithm = algorithm.value_or(rate_limit::Algorithm{});
         return algorithm ? nullptr
                          : "fixed_window, sliding_log, sliding_window, token_bucket or gcra";
     },
     Is::required},
    {"limit",
     [](ngx_conf_t *, rate_limit::Rule &rule, std::string_view value) -> const char * {
         const auto limit = rate_limit::parse_whole_number(value, rate_limit::largest_number);
         rule.limit = limit.value_or(0);
         return limit ? nullptr : expected_number;
     },
     Is::required},
    {"burst",
     [](ngx_conf_t *, rate_limit::Rule &rule, std::string_view value) -> const char * {
         rule.burst = rate_limit::parse_whole_number(value, rate_limit::largest_number);
         return rule.burst ? nullptr : expected_number;
     }},
    {"aligned",
     [](ngx_conf_t *, rate_limit::Rule &rule, std::string_view) -> const char * {
         rule.aligned = true;
         return nullptr;
     },
     Is::flag},
    {"window",
     [](ngx_conf_t *, rate_limit::Rule &rule, std::string_view value) -> const char * {
         ngx_str_t text = to_ngx(value);
         rule.window = std::chrono::milliseconds(ngx_parse_time(&text, 0));
         const bool in_range = rule.window >= rate_limit::shortest_window &&
                               rule.window <= rate_limit::longest_window;
         return in_range ? nullptr : "a time from 1ms to 366d, such as 60s";
     },
     Is::required},
    {"name",
     [](ngx_conf_t *, rate_limit::Rule &rule, std::string_view value) -> const char * {
         rule.explicit_name = value;
         return rate_limit::is_name(value) ? nullptr : expected_name;
     }},
};

/// What depends on more than one parameter.
char *check_rule(ngx_conf_t *cf, const rate_limit::Rule &rule) {
    const std::string_view algorithm = to_string(rule.algorithm);
    if (rule.burst && !is_bucket(rule.algorithm)) {
        return refuse(cf, rule_directive, "parameter burst with algorithm", algorithm,
                      "token_bucket or gcra");
    }
    if (rule.aligned && rule.algorithm != rate_limit::Algorithm::fixed_window) {
        return refuse(cf, rule_directive, "parameter aligned with algorithm", algorithm,
                      "fixed_window");
    }
    if (rule.limit > rate_limit::largest_limit(rule.algorithm)) {
        return refuse(cf, rule_directive, "limit", std::to_string(rule.limit),
                      "a whole number from 0 to 1000000 with sliding_log");
    }
    if (rule.refill() > rate_limit::longest_refill) {
        return refuse(cf, rule_directive, "burst", std::to_string(rule.capacity()),
                      "a bucket that fills, by limit and window, within 10 years");
    }
    return NGX_CONF_OK;
}

// --- the rest

struct NamedChoice {
    std::string_view name;
    ngx_uint_t choice;
};

/// The choice of that name; nothing where there is none.
template <size_t n>
std::optional<ngx_uint_t> choose(const NamedChoice (&choices)[n], std::string_view name) {
    for (const auto &[choice_name, choice] : choices) {
        if (choice_name == name) {
            return choice;
        }
    }
    return std::nullopt;
}

} // namespace

char *set_zone(ngx_conf_t *cf, ngx_command_t * /*command*/, void *conf) noexcept {
    auto &main = *static_cast<MainConf *>(conf);
    const auto words = words_of(cf);
    auto zone = std::make_unique<ZoneConf>(cf);
    char *result =
        set_parameters<ZoneConf>(cf, zone_directive, zone_parameters, words.subspan(2), *zone);
    if (result != NGX_CONF_OK) {
        return result;
    }
    if (main.zone(zone->name) != nullptr) {
        return refuse(cf, zone_directive, "zone", zone->name, "each zone once");
    }
    if (!compile_key(cf, *zone, words[1]) || !add_shared_memory(cf, *zone)) {
        return static_cast<char *>(NGX_CONF_ERROR);
    }
    main.zones.push_back(std::move(zone));
    return NGX_CONF_OK;
}

char *set_rule(ngx_conf_t *cf, ngx_command_t * /*command*/, void *conf) noexcept {
    auto &location = *static_cast<LocationConf *>(conf);
    const auto words = words_of(cf);
    if (location.has_rules) {
        return refuse_duplicate(cf, rule_directive);
    }
    location.has_rules = true;
    if (words.size() == 2 && view(words[1]) == "off") {
        return NGX_CONF_OK;
    }
    auto rule = std::make_unique<RuleConf>(cf);
    char *result = set_parameters<rate_limit::Rule>(cf, rule_directive, rule_parameters,
                                                    words.subspan(1), rule->rule);
    if (result != NGX_CONF_OK) {
        return result;
    }
    result = check_rule(cf, rule->rule);
    if (result != NGX_CONF_OK) {
        return result;
    }
    location.rule = rule.get();
    main_conf(cf).rules.push_back(std::move(rule));
    return NGX_CONF_OK;
}

char *set_status(ngx_conf_t *cf, ngx_command_t * /*command*/, void *conf) noexcept {
    auto &status = static_cast<LocationConf *>(conf)->status;
    const std::string_view value = view(words_of(cf)[1]);
    if (status != NGX_CONF_UNSET_UINT) {
        return refuse_duplicate(cf, "redis_rate_limit_status");
    }
    const auto code = rate_limit::parse_whole_number(value, 599);
    if (!code || *code < 400) {
        return refuse(cf, "redis_rate_limit_status", "code", value, "400 to 599");
    }
    status = *code;
    return NGX_CONF_OK;
}

char *set_log_level(ngx_conf_t *cf, ngx_command_t * /*command*/, void *conf) noexcept {
    constexpr NamedChoice levels[] = {{"info", NGX_LOG_INFO},
                                      {"notice", NGX_LOG_NOTICE},
                                      {"warn", NGX_LOG_WARN},
                                      {"error", NGX_LOG_ERR}};
    auto &log_level = static_cast<LocationConf *>(conf)->log_level;
    const std::string_view value = view(words_of(cf)[1]);
    if (log_level != NGX_CONF_UNSET_UINT) {
        return refuse_duplicate(cf, "redis_rate_limit_log_level");
    }
    const auto level = choose(levels, value);
    if (!level) {
        return refuse(cf, "redis_rate_limit_log_level", "level", value,
                      "info, notice, warn or error");
    }
    log_level = *level;
    return NGX_CONF_OK;
}

char *set_headers(ngx_conf_t *cf, ngx_command_t * /*command*/, void *conf) noexcept {
    constexpr NamedChoice families[] = {{"x", x_headers}, {"ietf", ietf_headers}};
    constexpr const char *directive = "redis_rate_limit_headers";
    auto &headers = static_cast<LocationConf *>(conf)->headers;
    const auto values = words_of(cf).subspan(1);
    if (headers != NGX_CONF_UNSET_UINT) {
        return refuse_duplicate(cf, directive);
    }
    headers = no_headers;
    if (values.size() == 1 && view(values[0]) == "off") {
        return NGX_CONF_OK;
    }
    for (const ngx_str_t &value : values) {
        const auto family = choose(families, view(value));
        if (!family || (headers & *family) != 0) {
            return refuse(cf, directive, "value", view(value),
                          "off alone, or x and ietf, each once");
        }
        headers |= *family;
    }
    return NGX_CONF_OK;
}

} // namespace nginx_module
