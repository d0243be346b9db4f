// The directive redis_rate_limit, which makes a rule.
#include "../../rate_limit/leasing.hpp"
#include "../../rate_limit/shards.hpp"
#include "../../rate_limit/text.hpp"
#include "../../redis_client/lua_source.hpp"
#include "configuration.hpp"
#include "directives.hpp"
#include "parameters.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace nginx_module {

namespace {

using rate_limit::AlgorithmTraits;
using std::chrono::milliseconds;

constexpr const char *directive = "redis_rate_limit";
constexpr const char *expected_number = "a whole number from 0 to 1000000000";

/// Compiles a text, which may have variables. Returns null, or what was expected instead.
const char *set_text(ngx_conf_t *cf, std::string_view value, ngx_http_complex_value_t *&text) {
    text = static_cast<ngx_http_complex_value_t *>(
        ngx_pcalloc(cf->pool, sizeof(ngx_http_complex_value_t)));
    return text != nullptr && compile_value(cf, to_ngx(value), *text) ? nullptr : already_logged;
}

/// Stores a whole number in `number`, or a text with variables in `variable`. Returns null, or what
/// was expected instead.
const char *set_number_or_variable(ngx_conf_t *cf, std::string_view value,
                                   std::optional<uint64_t> &number,
                                   ngx_http_complex_value_t *&variable) {
    if (value.find('$') == std::string_view::npos) {
        number = rate_limit::parse_whole_number(value, rate_limit::largest_number);
        return number ? nullptr : expected_number;
    }
    return set_text(cf, value, variable);
}

const char *set_number_or_variable(ngx_conf_t *cf, std::string_view value, uint64_t &number,
                                   ngx_http_complex_value_t *&variable) {
    std::optional<uint64_t> given;
    const char *expected = set_number_or_variable(cf, value, given, variable);
    number = given.value_or(number);
    return expected;
}

const char *set_name(std::string_view value, std::string &name) {
    name = value;
    return rate_limit::is_name(value) ? nullptr : expected_name;
}

const Parameter<RuleConf> rule_parameters[] = {
    {"zone",
     [](ngx_conf_t *, RuleConf &conf, std::string_view value) -> const char * {
         return set_name(value, conf.rule.zone);
     },
     Is::required},
    {"algorithm",
     [](ngx_conf_t *cf, RuleConf &conf, std::string_view value) -> const char * {
         const auto algorithm = rate_limit::algorithm_named(value);
         if (!algorithm) {
             const auto any = [](const AlgorithmTraits &) { return true; };
             refuse(cf, directive, "algorithm", value,
                    rate_limit::names_of_algorithms(any).c_str());
             return already_logged;
         }
         conf.rule.quota.algorithm = *algorithm;
         return redis_client::has_script(*algorithm)
                    ? nullptr
                    : "a module that has its script; in this one it is empty, the compiler has "
                      "not embedded it";
     },
     Is::required},
    {"limit",
     [](ngx_conf_t *cf, RuleConf &conf, std::string_view value) -> const char * {
         return set_number_or_variable(cf, value, conf.rule.quota.limit, conf.limit);
     },
     Is::required},
    {"burst",
     [](ngx_conf_t *cf, RuleConf &conf, std::string_view value) -> const char * {
         return set_number_or_variable(cf, value, conf.rule.quota.burst, conf.burst);
     }},
    {"delay",
     [](ngx_conf_t *, RuleConf &conf, std::string_view value) -> const char * {
         const auto delay = rate_limit::parse_whole_number(value, rate_limit::largest_number);
         conf.rule.quota.delay = delay.value_or(0);
         conf.has_delay = true;
         return delay ? nullptr : expected_number;
     }},
    {"cost",
     [](ngx_conf_t *cf, RuleConf &conf, std::string_view value) -> const char * {
         return set_number_or_variable(cf, value, conf.rule.quota.cost, conf.cost);
     }},
    {"final_cost",
     [](ngx_conf_t *cf, RuleConf &conf, std::string_view value) -> const char * {
         const bool is_number =
             rate_limit::parse_whole_number(value, rate_limit::largest_number).has_value();
         if (!is_number && value.find('$') == std::string_view::npos) {
             return expected_number;
         }
         return set_text(cf, value, conf.final_cost);
     }},
    {"window",
     [](ngx_conf_t *, RuleConf &conf, std::string_view value) -> const char * {
         auto &window = conf.rule.quota.window;
         window = parse_time(value);
         const bool in_range =
             window >= rate_limit::shortest_window && window <= rate_limit::longest_window;
         return in_range ? nullptr : "a time from 1ms to 366d, such as 60s";
     }},
    {"aligned",
     [](ngx_conf_t *, RuleConf &conf, std::string_view) -> const char * {
         conf.rule.aligned = true;
         return nullptr;
     },
     Is::flag},
    {"shards",
     [](ngx_conf_t *, RuleConf &conf, std::string_view value) -> const char * {
         const auto shards = rate_limit::parse_whole_number(value, rate_limit::most_shards);
         conf.rule.shards = shards.value_or(0);
         return conf.rule.shards > 0 ? nullptr : "a whole number from 1 to 64";
     }},
    {"lease",
     [](ngx_conf_t *, RuleConf &conf, std::string_view value) -> const char * {
         using rate_limit::LeaseSetting;
         LeaseSetting &lease = conf.rule.lease;
         if (value == "off" || value == "auto") {
             lease.kind = value == "off" ? LeaseSetting::Kind::off : LeaseSetting::Kind::automatic;
             return nullptr;
         }
         lease = {.kind = LeaseSetting::Kind::given, .given = parse_time(value)};
         const bool in_range =
             lease.given >= rate_limit::shortest_lease && lease.given <= rate_limit::longest_lease;
         return in_range ? nullptr : "off, auto or a time from 1ms to 10s";
     }},
    {"block",
     [](ngx_conf_t *, RuleConf &conf, std::string_view value) -> const char * {
         auto &block = conf.rule.block;
         block = parse_time(value);
         const bool in_range =
             block >= rate_limit::shortest_block && block <= rate_limit::longest_block;
         return in_range ? nullptr : "a time from 1s to 366d, such as 15m";
     }},
    {"phase",
     [](ngx_conf_t *, RuleConf &conf, std::string_view value) -> const char * {
         conf.phase = value == "precontent" ? Phase::precontent : Phase::access;
         return value == "access" || value == "precontent" ? nullptr : "access or precontent";
     }},
    {"name",
     [](ngx_conf_t *, RuleConf &conf, std::string_view value) -> const char * {
         return set_name(value, conf.rule.explicit_name);
     }},
    {"dry_run",
     [](ngx_conf_t *, RuleConf &conf, std::string_view) -> const char * {
         conf.dry_run = true;
         return nullptr;
     },
     Is::flag},
};

/// Refuses parameters that the rule's algorithm does not take.
char *check_parameters(ngx_conf_t *cf, const RuleConf &conf) {
    struct Special {
        const char *parameter;
        bool is_given;
        bool (*is_taken_by)(const AlgorithmTraits &traits);
    };
    const rate_limit::Quota &quota = conf.rule.quota;
    const Special specials[] = {
        {"burst", quota.burst || conf.burst != nullptr,
         [](const AlgorithmTraits &traits) { return traits.burst != rate_limit::Burst::none; }},
        {"delay", conf.has_delay, [](const AlgorithmTraits &traits) { return traits.takes_delay; }},
        {"aligned", conf.rule.aligned,
         [](const AlgorithmTraits &traits) { return traits.takes_aligned; }},
        {"final_cost", conf.final_cost != nullptr,
         [](const AlgorithmTraits &traits) {
             return traits.algorithm != rate_limit::Algorithm::concurrency;
         }},
        {"lease", conf.rule.lease.kind != rate_limit::LeaseSetting::Kind::off,
         [](const AlgorithmTraits &traits) { return traits.lease_divisor > 0; }},
    };
    for (const Special &special : specials) {
        if (special.is_given && !special.is_taken_by(rate_limit::traits_of(quota.algorithm))) {
            return refuse(cf, directive,
                          std::string("parameter ") + special.parameter + " with algorithm",
                          to_string(quota.algorithm),
                          rate_limit::names_of_algorithms(special.is_taken_by).c_str());
        }
    }
    return NGX_CONF_OK;
}

/// Refuses a limit or a cost that is more than the algorithm takes.
char *refuse_for_algorithm(ngx_conf_t *cf, const char *parameter, uint64_t number, uint64_t largest,
                           rate_limit::Algorithm algorithm) {
    const std::string expected = "a whole number from 0 to " + std::to_string(largest) + " with " +
                                 std::string(to_string(algorithm));
    return refuse(cf, directive, parameter, std::to_string(number), expected.c_str());
}

/// Refuses numbers that the rule's algorithm does not take.
char *check_numbers(ngx_conf_t *cf, const rate_limit::Quota &quota) {
    const uint64_t largest_limit = rate_limit::largest_limit(quota.algorithm);
    if (quota.limit > largest_limit) {
        return refuse_for_algorithm(cf, "limit", quota.limit, largest_limit, quota.algorithm);
    }
    const uint64_t largest_cost = rate_limit::largest_cost(quota.algorithm);
    if (quota.cost > largest_cost) {
        return refuse_for_algorithm(cf, "cost", quota.cost, largest_cost, quota.algorithm);
    }
    if (quota.refill() > rate_limit::longest_refill) { // possible only with a burst
        return refuse(cf, directive, "burst", std::to_string(quota.burst.value_or(0)),
                      "a bucket that fills, by limit and window, within 10 years");
    }
    return NGX_CONF_OK;
}

/// Whether each shard has at least a unit of the limit, and can grant at once what a request costs.
bool can_be_shared(const rate_limit::Quota &quota, uint64_t shards) {
    return rate_limit::shards_in_use(quota, shards) == shards &&
           (quota.cost > quota.capacity() ||
            quota.cost <= rate_limit::smallest_capacity(quota, shards));
}

/// Refuses more shards than can each grant a request. It cannot check numbers from variables.
char *check_shards(ngx_conf_t *cf, const RuleConf &conf) {
    const rate_limit::Quota &quota = conf.rule.quota;
    if (conf.limit != nullptr || conf.burst != nullptr || quota.capacity() == 0) {
        return NGX_CONF_OK;
    }
    uint64_t most = conf.rule.shards;
    while (!can_be_shared(quota, most)) {
        --most; // this ends at 1 shard, which every rule can have
    }
    if (most == conf.rule.shards) {
        return NGX_CONF_OK;
    }
    const std::string expected =
        "at most " + std::to_string(most) + ", so that each has room for a request";
    return refuse(cf, directive, "shards", std::to_string(conf.rule.shards), expected.c_str());
}

/// Refuses blocks of a rule with shards: the counters of the others are in other hash slots.
char *check_block(ngx_conf_t *cf, const RuleConf &conf) {
    if (conf.rule.block.count() == 0 || conf.rule.shards == 1) {
        return NGX_CONF_OK;
    }
    return refuse(cf, directive, "shards", std::to_string(conf.rule.shards),
                  "1 with block, of which the other shards would not know");
}

/// Refuses leases that the rule can never have. Where a request's variables decide, the request
/// does.
char *check_lease(ngx_conf_t *cf, const RuleConf &conf) {
    using rate_limit::LeaseSetting;
    const rate_limit::Quota &quota = conf.rule.quota;
    const LeaseSetting &lease = conf.rule.lease;
    if (lease.kind == LeaseSetting::Kind::off) {
        return NGX_CONF_OK;
    }
    const bool is_given = lease.kind == LeaseSetting::Kind::given;
    const std::string text = is_given ? std::to_string(lease.given.count()) + "ms" : "auto";
    if (conf.rule.shards > 1) {
        return refuse(cf, directive, "lease", text,
                      "off with shards, of which each request may ask another one");
    }
    if (conf.rule.block.count() > 0) {
        return refuse(cf, directive, "lease", text,
                      "off with block, for requests that are granted in advance see no block");
    }
    if (conf.burst == nullptr && rate_limit::traits_of(quota.algorithm).takes_delay &&
        quota.delay < quota.burst.value_or(0)) {
        return refuse(cf, directive, "lease", text,
                      "off, or a delay of at least the burst, for requests that are held back "
                      "cannot be granted in advance");
    }
    const bool is_variable = conf.limit != nullptr || conf.burst != nullptr;
    if (quota.capacity() == 0 && !is_variable) {
        return NGX_CONF_OK;
    }
    const auto most = std::chrono::floor<milliseconds>(rate_limit::longest_lease_time(quota));
    if (is_given && lease.given > most && !(is_variable && is_bucket(quota.algorithm))) {
        const std::string quarter = "a quarter of the time in which the whole capacity comes back";
        const std::string expected =
            most < rate_limit::shortest_lease
                ? "off, for leases hold for at most " + quarter
                : "at most " + std::to_string(most.count()) + "ms, " + quarter;
        return refuse(cf, directive, "lease", text, expected.c_str());
    }
    if (is_variable || rate_limit::lease_time(quota, lease).count() > 0) {
        return NGX_CONF_OK;
    }
    ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                       "%s: lease \"auto\" leases nothing, expected a capacity of at least 16 that "
                       "comes back in 40 ms or more",
                       directive);
    return NGX_CONF_OK;
}

/// Returns the most that the rule can grant at once, whatever a request's variables say.
uint64_t largest_capacity(const RuleConf &conf) {
    rate_limit::Quota quota = conf.rule.quota;
    if (conf.limit != nullptr) {
        quota.limit = rate_limit::largest_limit(quota.algorithm);
    }
    if (conf.burst != nullptr) {
        quota.burst = rate_limit::largest_number;
    }
    return quota.capacity();
}

/// Warns of a cost that the rule can never grant. It is not refused, because the documentation says
/// what it does. A rule that denies every request of any cost is meant so, or has another warning.
void warn_of_large_cost(ngx_conf_t *cf, const RuleConf &conf) {
    const rate_limit::Quota &quota = conf.rule.quota;
    const uint64_t most = largest_capacity(conf);
    if (conf.cost == nullptr && most > 0 && quota.cost > most) {
        ngx_conf_log_error(
            NGX_LOG_WARN, cf, 0,
            "%s: cost \"%uL\" is more than the rule can ever grant, and denies every "
            "request, expected at most %uL, or a larger %s",
            directive, quota.cost, most, is_bucket(quota.algorithm) ? "burst" : "limit");
    }
}

void warn_of_large_delay(ngx_conf_t *cf, const RuleConf &conf) {
    const uint64_t burst = conf.rule.quota.burst.value_or(0);
    if (conf.burst == nullptr && conf.rule.quota.delay > burst) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "%s: delay \"%uL\" is larger than burst \"%uL\", so that no request is "
                           "held back, expected at most %uL",
                           directive, conf.rule.quota.delay, burst, burst);
    }
}

/// Warns of a token_bucket without room. It is not refused, because a limit of 0 is not refused
/// either. But it may be a mistake: with gcra burst=0 is the default, and grants requests.
void warn_of_empty_bucket(ngx_conf_t *cf, const rate_limit::Quota &quota) {
    if (quota.algorithm == rate_limit::Algorithm::token_bucket && quota.burst == uint64_t{0} &&
        quota.cost > 0) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "%s: burst \"0\" is the size of a token_bucket, and denies every "
                           "request, expected at least 1",
                           directive);
    }
}

/// Checks what depends on more than one parameter of the rule.
char *check_rule(ngx_conf_t *cf, RuleConf &conf) {
    rate_limit::Quota &quota = conf.rule.quota;
    if (quota.window.count() == 0) {
        if (rate_limit::traits_of(quota.algorithm).needs_window) {
            return refuse_missing(cf, directive, "window");
        }
        quota.window = std::chrono::seconds{60};
    }
    char *result = check_parameters(cf, conf);
    if (result == NGX_CONF_OK) {
        result = check_numbers(cf, quota);
    }
    if (result == NGX_CONF_OK) {
        warn_of_empty_bucket(cf, quota);
        warn_of_large_cost(cf, conf);
        warn_of_large_delay(cf, conf);
        result = check_shards(cf, conf);
    }
    if (result == NGX_CONF_OK) {
        result = check_block(cf, conf);
    }
    if (result == NGX_CONF_OK) {
        result = check_lease(cf, conf);
    }
    if (conf.cost == nullptr) {
        rate_limit::keep_cost_free(quota, conf.final_cost != nullptr);
    }
    return result;
}

/// Checks what depends on the other rules of the level.
char *check_level(ngx_conf_t *cf, const RuleList &level, const RuleConf &conf) {
    size_t of_its_phase = 1;
    const std::string name = conf.rule.name();
    for (const RuleConf *other : level) {
        if (other->rule.name() == name) {
            return refuse(cf, directive, "name", name,
                          "each name once on a level: give one of the rules another name=");
        }
        of_its_phase += other->phase == conf.phase ? 1 : 0;
    }
    if (of_its_phase > redis_client::most_rules) {
        return refuse(cf, directive, "number of rules", std::to_string(of_its_phase),
                      "12 of a phase on a level at most");
    }
    return NGX_CONF_OK;
}

} // namespace

char *set_rule(ngx_conf_t *cf, ngx_command_t * /*command*/, void *conf) noexcept {
    auto &location = *static_cast<LocationConf *>(conf);
    MainConf &main = main_conf(cf);
    const auto words = words_of(cf);
    const bool is_off = view(words[1]) == "off";
    const bool is_alone = words.size() == 2 && location.rules == nullptr;
    const bool was_off = location.rules != nullptr && location.rules->empty();
    if (was_off || (is_off && !is_alone)) {
        return refuse(cf, directive, "parameter", view(words[1]), "off alone on a level");
    }
    if (location.rules == nullptr) {
        main.rule_lists.push_back(std::make_unique<RuleList>());
        location.rules = main.rule_lists.back().get();
    }
    if (is_off) {
        return NGX_CONF_OK;
    }
    auto rule = std::make_unique<RuleConf>(cf);
    char *result =
        set_parameters<RuleConf>(cf, directive, rule_parameters, words.subspan(1), *rule);
    if (result == NGX_CONF_OK) {
        result = check_rule(cf, *rule);
    }
    if (result == NGX_CONF_OK) {
        result = check_level(cf, *location.rules, *rule);
    }
    if (result != NGX_CONF_OK) {
        return result;
    }
    location.rules->push_back(rule.get());
    main.rules.push_back(std::move(rule));
    return NGX_CONF_OK;
}

} // namespace nginx_module
