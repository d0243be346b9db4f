// Many checks in one script run: each decides as if it were asked alone, one after another.

#include "model_test.hpp"

#include <map>

namespace model {
namespace {

struct BatchedRule {
    Quota quota;
    bool aligned;
    bool dry_run;
    std::string name;
    std::map<std::string, std::unique_ptr<Model>> models; // by key; null: of another type
    Verdict last;
};

/// What is to become of one check.
struct Expected {
    bool fails = false;
    std::vector<bool> charged;
    std::vector<Verdict> verdicts;
};

class BatchesTest : public testing::Test {
  protected:
    std::vector<BatchedRule> random_rules() {
        std::vector<BatchedRule> rules(static_cast<size_t>(traffic_.between(1, 4)));
        for (BatchedRule &rule : rules) {
            rule.quota = traffic_.small_quota(all_but_concurrency[traffic_.between(0, 5)]);
            rule.quota.delay = static_cast<uint64_t>(traffic_.between(0, 3));
            rule.quota.cost = static_cast<uint64_t>(traffic_.one_of({0, 1, 1, 1, 2}));
            rule.aligned = traffic_.one_in(2);
            rule.dry_run = traffic_.one_in(4);
            rule.name = std::to_string(++rules_made_);
            rule.last.remaining = rule.quota.capacity();
            for (const char *key : {":1", ":2", ":3"}) {
                rule.models[rule.name + key] = model_of(rule.quota.algorithm, rule.aligned);
            }
            rule.models[rule.name + ":hash"] = nullptr;
            redis_.command({"HSET", rule.name + ":hash", "field", "value"});
        }
        return rules;
    }

    std::vector<Charge> random_check(std::vector<BatchedRule> &rules) {
        std::vector<Charge> charges;
        for (BatchedRule &rule : rules) {
            auto key = rule.models.begin(); // the texts stay where they are
            std::advance(key, traffic_.one_in(20) ? 3 : traffic_.between(0, 2));
            charges.push_back(charge_of(rule.quota, rule.aligned, key->first));
            charges.back().dry_run = rule.dry_run;
        }
        return charges;
    }

    /// Takes what is granted, so that the next check finds it taken.
    static Expected decide(std::vector<BatchedRule> &rules, std::span<const Charge> charges,
                           int64_t now) {
        std::vector<Model *> models;
        for (size_t i = 0; i < rules.size(); ++i) {
            models.push_back(rules[i].models.at(std::string(charges[i].redis_key)).get());
            if (models.back() == nullptr) {
                return {.fails = true, .charged = {}, .verdicts = {}};
            }
        }
        std::vector<bool> fits;
        bool granted = true;
        for (size_t i = 0; i < rules.size(); ++i) {
            fits.push_back(models[i]->fits(charges[i].quota, now));
            granted = granted && (fits[i] || charges[i].dry_run);
        }
        Expected expected;
        for (size_t i = 0; i < rules.size(); ++i) {
            const Quota &quota = charges[i].quota;
            const bool charged = granted && fits[i];
            if (charged && quota.cost > 0) {
                models[i]->take(quota, now);
            }
            expected.charged.push_back(charged);
            expected.verdicts.push_back(models[i]->verdict(quota, now, fits[i], charged));
        }
        return expected;
    }

    Redis redis_;
    Clock clock_;
    Traffic traffic_;
    int rules_made_ = 0;
};

TEST_F(BatchesTest, DecideEachCheckAsIfItWereAlone) {
    int failures = 0;
    int denials = 0;
    int grants = 0;
    for (int scenario = 0; scenario < 100; ++scenario) {
        std::vector<BatchedRule> rules = random_rules();
        clock_.move(1'000'000'000);
        for (int turn = 0; turn < 20; ++turn) {
            const BatchedRule &pace = rules[0];
            clock_.move(std::max(traffic_.step(pace.quota, pace.last), int64_t{0}));
            std::vector<std::vector<Charge>> checks;
            std::vector<Expected> expected;
            for (int64_t count = traffic_.between(1, 16); count > 0; --count) {
                checks.push_back(random_check(rules));
                expected.push_back(decide(rules, checks.back(), clock_.now()));
            }
            const std::vector<std::string> errors = redis_.check_run(checks);
            ASSERT_EQ(errors.size(), checks.size());
            for (size_t i = 0; i < checks.size(); ++i) {
                SCOPED_TRACE("check " + std::to_string(i) + " of " + std::to_string(checks.size()));
                if (expected[i].fails) {
                    ASSERT_NE(errors[i].find("WRONGTYPE"), std::string::npos) << errors[i];
                    ++failures;
                    continue;
                }
                ASSERT_EQ(errors[i], "");
                for (size_t rule = 0; rule < rules.size(); ++rule) {
                    const Charge &charge = checks[i][rule];
                    SCOPED_TRACE(described(charge.quota) + (charge.dry_run ? " dry_run" : ""));
                    ASSERT_EQ(charge.is_charged, expected[i].charged[rule]);
                    ASSERT_EQ(charge.verdict, expected[i].verdicts[rule]);
                    rules[rule].last = charge.verdict;
                    ++(charge.is_charged ? grants : denials);
                }
            }
        }
    }
    EXPECT_GT(failures, 500);
    EXPECT_GT(denials, 2000);
    EXPECT_GT(grants, 2000);
}

// The keys are local names, too: Lua has room for 200.
TEST_F(BatchesTest, MayBeOfAsManyRulesAsACheckMayHold) {
    for (const Algorithm algorithm : all_but_concurrency) {
        SCOPED_TRACE(to_string(algorithm));
        Quota quota;
        quota.algorithm = algorithm;
        quota.limit = 3;
        quota.burst = 2;
        quota.window = milliseconds(1000);
        std::vector<std::string> keys;
        for (size_t i = 0; i < redis_client::most_rules; ++i) {
            keys.push_back(std::string(to_string(algorithm)) + std::to_string(i));
        }
        const uint64_t capacity = quota.capacity();
        std::vector<std::vector<Charge>> checks(capacity + 1);
        for (std::vector<Charge> &charges : checks) {
            for (const std::string &key : keys) {
                charges.push_back(charge_of(quota, false, key));
            }
        }
        for (const std::string &error : redis_.check_run(checks)) {
            ASSERT_EQ(error, "");
        }
        for (size_t i = 0; i < checks.size(); ++i) {
            for (const Charge &charge : checks[i]) {
                ASSERT_EQ(charge.is_charged, i < capacity);
                ASSERT_EQ(charge.verdict.remaining, i < capacity ? capacity - 1 - i : 0);
            }
        }
    }
}

} // namespace
} // namespace model
