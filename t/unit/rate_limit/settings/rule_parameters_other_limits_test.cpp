// Which rules take another limit of their bucket for one that has changed.

#include "rate_limit/settings/rule_parameters.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;

RuleParameters rule_of(uint64_t limit, std::string name = "") {
    RuleParameters rule;
    rule.rule.zone = "z";
    rule.rule.explicit_name = std::move(name);
    rule.rule.quota = {.algorithm = Algorithm::gcra, .window = 60s, .limit = limit, .burst = 5};
    return rule;
}

/// Of each rule: whether units stay taken.
std::vector<bool> decided(std::vector<RuleParameters> rules) {
    std::vector<RuleParameters *> all;
    for (RuleParameters &rule : rules) {
        all.push_back(&rule);
    }
    decide_other_limits(all);
    std::vector<bool> in_units;
    for (const RuleParameters &rule : rules) {
        in_units.push_back(rule.rule.quota.other_limit == OtherLimit::counts_in_units);
    }
    return in_units;
}

TEST(OtherLimits, HaveChangedWhereAllRulesOfTheCounterHaveTheSameConstantNumbers) {
    EXPECT_EQ(decided({rule_of(4), rule_of(4)}), (std::vector{true, true}));
    EXPECT_EQ(decided({rule_of(4), rule_of(400)}), (std::vector{false, false}));
    EXPECT_EQ(decided({rule_of(4), rule_of(4), rule_of(400)}), (std::vector{false, false, false}));
    EXPECT_EQ(decided({rule_of(4), rule_of(400, "other")}), (std::vector{true, true}));
}

TEST(OtherLimits, AreOfAnotherRuleWhereTheBurstDiffersOrVariablesGiveIt) {
    RuleParameters other = rule_of(4);
    other.rule.quota.burst = 6; // with shards, it may have more of them
    EXPECT_EQ(decided({rule_of(4), other}), (std::vector{false, false}));
    other = rule_of(4);
    other.limit_text = "$limit";
    EXPECT_EQ(decided({rule_of(4), other}), (std::vector{false, false}));
    other = rule_of(4);
    other.burst_text = "$burst";
    EXPECT_EQ(decided({other}), (std::vector{false}));
    other = rule_of(4);
    other.cost_text = "$cost";
    EXPECT_EQ(decided({rule_of(4), other}), (std::vector{true, true}));
}

} // namespace
} // namespace rate_limit
