#include "simulation/host_configuration.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <string_view>

namespace simulation {

HostConfiguration::HostConfiguration(const DrawnConfiguration &drawn, size_t first_number,
                                     const Topology &topology)
    : first_number_(first_number) {
    settings_.session.timeout = timeout;
    settings_.session.max_pending = drawn.max_pending;
    settings_.live_store.emplace(settings_.prefix);
    topology.configure(settings_);
    std::vector<std::string_view> zone_words{"$key", "zone=z:1m"};
    zone_words.insert(zone_words.end(), drawn.zone.begin(), drawn.zone.end());
    if (rate_limit::read_zone(zone_words, zone_)) {
        abort(); // who draws looks first
    }
    zone_.backend = &settings_;
    std::vector<rate_limit::RuleParameters *> parameters;
    std::vector<limiter::Rule *> pointers;
    const auto add = [&](const DrawnRule &one, limiter::RuleList &level) {
        std::vector<std::string_view> words{"zone=z"};
        words.insert(words.end(), one.words.begin(), one.words.end());
        limiter::Rule &rule = rules_.emplace_back();
        std::vector<std::string> warnings;
        if (rate_limit::read_rule(words, rule, warnings)) {
            abort(); // the same
        }
        numbers_.emplace(&rule, first_number + numbers_.size());
        parameters.push_back(&rule);
        pointers.push_back(&rule);
        level.push_back(&rule);
    };
    for (const DrawnRule &one : drawn.rules) {
        add(one, level_);
    }
    for (const DrawnRule &one : drawn.rivals) {
        add(one, rivals_);
    }
    rate_limit::decide_other_limits(parameters);
    for (limiter::Rule &rule : rules_) {
        rule.complete(zone_);
        const limiter::Rule *first = rule_named(rule.name);
        rule.first_of_name = first != nullptr ? &rules_[number_of(*first) - first_number] : &rule;
        if (rule.first_of_name == &rule) {
            zone_.named_rules.push_back(&rule);
        }
    }
    const std::array levels{limiter::Level{level_, false}, limiter::Level{rivals_, false}};
    limiter::link_rules(
        pointers, levels, [this](const limiter::Rule &) -> auto & { return settings_.session; });
}

void HostConfiguration::claim_counters(const HostConfiguration *running) {
    rate_limit::RuleCounterTable counters = zone_.memory.rule_counters();
    const auto hash_of = [&](const limiter::Rule &rule) {
        return rate_limit::hash_of(zone_.memory.seed(), rule.name);
    };
    counters.begin_generation();
    if (running != nullptr) {
        for (const limiter::Rule &rule : running->rules_) {
            counters.keep(hash_of(rule));
        }
    }
    for (limiter::Rule *rule : zone_.named_rules) {
        rule->counters = &counters.claim(hash_of(*rule));
    }
}

bool HostConfiguration::has_precontent() const {
    return std::ranges::any_of(
        rules_, [](const limiter::Rule &rule) { return rule.phase == rate_limit::Phase::late; });
}

const limiter::Rule *HostConfiguration::rule_named(std::string_view name) const {
    const auto found = std::ranges::find(rules_, name, &limiter::Rule::name);
    return found != rules_.end() ? &*found : nullptr;
}

} // namespace simulation
