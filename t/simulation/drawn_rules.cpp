#include "simulation/drawn_rules.hpp"

#include "limiter/configuration.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace simulation {

namespace {

/// Returns nothing if no configuration may have such a rule.
std::optional<DrawnRule> draw_rule(Chance &chance, size_t number) {
    static constexpr std::array algorithms{"sliding_log",  "fixed_window", "sliding_window",
                                           "token_bucket", "gcra",         "leaky_bucket",
                                           "concurrency"};
    AuditedRule audited;
    audited.algorithm = algorithms[chance.below(algorithms.size())];
    static constexpr std::array<uint64_t, 4> largest_limits{5, 5, 200, 5000};
    audited.limit = 1 + chance.below(largest_limits[chance.below(largest_limits.size())]);
    const bool is_concurrency = audited.algorithm == "concurrency";
    const int64_t window_ms = is_concurrency ? 60'000 : chance.between(20, 3000);
    audited.window_us = window_ms * 1000;
    RuleWords words{"algorithm=" + audited.algorithm, "limit=" + std::to_string(audited.limit),
                    "window=" + std::to_string(window_ms) + "ms",
                    "name=r" + std::to_string(number)};
    const bool is_bucket = audited.algorithm == "token_bucket" || audited.algorithm == "gcra" ||
                           audited.algorithm == "leaky_bucket";
    if (is_bucket && chance.one_in(2)) {
        words.push_back("burst=" + std::to_string(1 + chance.below(50)));
    }
    if (!is_concurrency && chance.one_in(3)) {
        words.push_back(chance.one_in(2)
                            ? "lease=auto"
                            : "lease=" + std::to_string(chance.between(5, 700)) + "ms");
        audited.has_leases = true;
    }
    if (!is_concurrency && chance.one_in(4)) {
        words.push_back("cost=" + std::to_string(1 + chance.below(3)));
    }
    if (!is_concurrency && chance.one_in(3)) {
        words.emplace_back("final_cost=$f");
        audited.settles = true;
    }
    std::vector<std::string_view> all{"zone=z"};
    all.insert(all.end(), words.begin(), words.end());
    limiter::Rule rule;
    std::vector<std::string> warnings;
    if (rate_limit::read_rule(all, rule, warnings)) {
        return std::nullopt;
    }
    audited.capacity = is_bucket ? rule.rule.quota.capacity() : 0;
    return DrawnRule{std::move(words), std::move(audited)};
}

} // namespace

std::vector<DrawnRule> draw_rules(Chance &chance) {
    const size_t count = 1 + chance.below(3);
    std::vector<DrawnRule> rules;
    while (rules.size() < count) {
        if (auto rule = draw_rule(chance, rules.size())) {
            rules.push_back(std::move(*rule));
        }
    }
    return rules;
}

} // namespace simulation
