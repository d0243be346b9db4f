#include "limiter_test.hpp"

namespace limiter {

namespace {

class ApplicableRuleTest : public LimiterTest {
  protected:
    ApplicableRule applicable(std::string_view block = {}) {
        std::vector<std::string_view> words{"algorithm=fixed_window", "limit=5", "window=60"};
        if (!block.empty()) {
            words.push_back(block);
        }
        const Rule &rule = add_rule(words);
        ApplicableRule found;
        found.rule = &rule;
        found.key = "a";
        found.quota.algorithm = rate_limit::Algorithm::fixed_window;
        found.quota.limit = 5;
        found.quota.window = std::chrono::seconds{60};
        return found;
    }
};

TEST_F(ApplicableRuleTest, CoversAnotherOneOfItsCounterThatIsNoStricter) {
    const ApplicableRule rule = applicable();
    ApplicableRule other = applicable();
    EXPECT_TRUE(rule.covers(other));
    other.quota.limit = 4;
    EXPECT_FALSE(rule.covers(other));
    EXPECT_TRUE(other.covers(rule));
}

TEST_F(ApplicableRuleTest, CoversNoneThatLooksForABlock) {
    const ApplicableRule rule = applicable();
    const ApplicableRule blocking = applicable("block=60");
    EXPECT_FALSE(rule.covers(blocking));
    EXPECT_TRUE(blocking.covers(rule));
}

TEST_F(ApplicableRuleTest, CoversNoneThatIsEnforcedIfItIsADryRun) {
    ApplicableRule rule = applicable();
    const ApplicableRule enforced = applicable();
    rule.dry_run = true;
    EXPECT_FALSE(rule.covers(enforced));
    EXPECT_TRUE(enforced.covers(rule));
}

} // namespace

} // namespace limiter
