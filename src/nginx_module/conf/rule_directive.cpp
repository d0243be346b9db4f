// The directive redis_rate_limit, which makes a rule.
#include "nginx_module/conf/configuration.hpp"
#include "nginx_module/conf/directive_readers.hpp"
#include "nginx_module/conf/parameters.hpp"
#include "redis_client/script/lua_source.hpp"

#include <memory>
#include <string>
#include <vector>

namespace nginx_module {

namespace {

/// Compiles the texts that have variables. If a text is empty, there is nothing to compile.
char *compile_texts(ngx_conf_t *cf, const Context &context, RuleConf &rule) {
    const auto compile = [&](std::string_view text, const void *&compiled) {
        compiled = text.empty() ? nullptr : context.compile(cf, to_ngx(text));
        return text.empty() || compiled != nullptr;
    };
    const bool is_good =
        compile(rule.limit_text, rule.limit) && compile(rule.burst_text, rule.burst) &&
        compile(rule.cost_text, rule.cost) && compile(rule.final_cost_text, rule.final_cost);
    return is_good ? NGX_CONF_OK : static_cast<char *>(NGX_CONF_ERROR);
}

/// Reads and checks the words of the directive.
char *read_rule(ngx_conf_t *cf, const Context &context, const RuleList &level, RuleConf &rule) {
    std::vector<std::string> warnings;
    rate_limit::Refusal refusal = rate_limit::read_rule(values_of(cf), rule, warnings);
    for (const std::string &warning : warnings) {
        ngx_str_t text = to_ngx(warning);
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0, "%s: %V", rule_directive, &text);
    }
    const rate_limit::Algorithm algorithm = rule.rule.quota.algorithm;
    if (!refusal && !redis_client::has_script(algorithm)) {
        return refuse(cf, rule_directive, "algorithm", to_string(algorithm),
                      "a module that has its script; in this one it is empty, the compiler has "
                      "not embedded it");
    }
    if (!refusal) {
        refusal = rate_limit::refuse_beside(level, rule);
    }
    return refusal ? result_of(cf, rule_directive, refusal) : compile_texts(cf, context, rule);
}

} // namespace

char *add_rule(ngx_conf_t *cf, MainConf &main, LevelConf &level) {
    const auto words = words_of(cf);
    const bool is_off = view(words[1]) == "off";
    const bool is_alone = words.size() == 2 && level.rules == nullptr;
    const bool was_off = level.rules != nullptr && level.rules->empty();
    if (was_off || (is_off && !is_alone)) {
        return refuse(cf, rule_directive, "parameter", view(words[1]), "off alone on a level");
    }
    if (level.rules == nullptr) {
        main.rule_lists.push_back(std::make_unique<RuleList>());
        level.rules = main.rule_lists.back().get();
    }
    if (is_off) {
        return NGX_CONF_OK;
    }
    auto rule = std::make_unique<RuleConf>(cf);
    rule->place = main.context.place;
    char *result = read_rule(cf, main.context, *level.rules, *rule);
    if (result != NGX_CONF_OK) {
        return result;
    }
    level.rules->push_back(rule.get());
    main.rules.push_back(std::move(rule));
    return NGX_CONF_OK;
}

} // namespace nginx_module
