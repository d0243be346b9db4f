// Several rules in one check: charged all or nothing, as a model of each says.

#include "model_test.hpp"
#include "unit/redis_client/different_bytes.hpp"

#include <map>

namespace model {
namespace {

/// A rule, of which each request takes one of its keys.
struct KeyedRule {
    Quota quota;
    bool aligned;
    bool dry_run;
    std::string name;
    std::map<std::string, std::unique_ptr<Model>> models; // by key
    std::vector<Permit *> held;
    Verdict last;
};

/// One rule's part of a request.
struct Part {
    KeyedRule *rule;
    Model *model;
    bool fits;
    bool charged;
};

/// With scripts made for the rules, or with the one for any rules.
enum class Scripts { own, of_any_rules };

class RulesTest : public testing::TestWithParam<Scripts> {
  protected:
    RulesTest() {
        if (GetParam() == Scripts::of_any_rules) {
            redis_.ask_any_rules();
        }
    }

    std::vector<KeyedRule> random_rules() {
        std::vector<KeyedRule> rules(static_cast<size_t>(traffic_.between(1, 5)));
        for (KeyedRule &rule : rules) {
            rule.quota = traffic_.small_quota(all_algorithms[traffic_.between(0, 6)]);
            rule.quota.delay = static_cast<uint64_t>(traffic_.between(0, 3));
            rule.aligned = traffic_.one_in(2);
            rule.dry_run = traffic_.one_in(4);
            rule.name = std::to_string(++rules_made_);
            rule.last.remaining = rule.quota.capacity();
        }
        return rules;
    }

    /// Now the rules share a key with other requests, now they do not.
    std::string random_key(const KeyedRule &rule) {
        return rule.name + ":" + std::to_string(traffic_.between(1, 2));
    }

    /// The model of all of them together.
    static void decide(std::vector<Part> &parts, std::span<const Charge> charges, int64_t now) {
        bool granted = true;
        for (size_t i = 0; i < parts.size(); ++i) {
            parts[i].fits = parts[i].model->fits(charges[i].quota, now);
            granted = granted && (parts[i].fits || charges[i].dry_run);
        }
        for (size_t i = 0; i < parts.size(); ++i) {
            parts[i].charged = granted && parts[i].fits;
            if (!parts[i].charged || charges[i].quota.cost == 0) {
                continue;
            }
            if (charges[i].permit == nullptr) {
                parts[i].model->take(charges[i].quota, now);
            } else {
                static_cast<Concurrency *>(parts[i].model)
                    ->take_permit(charges[i].quota, now, charges[i].permit->name);
            }
        }
    }

    /// Not so far back that Redis could have forgotten what would count again.
    int64_t step(const KeyedRule &rule) {
        constexpr int64_t most = 2'000'000;
        newest_ = std::max(newest_, clock_.now());
        const int64_t step = traffic_.step(rule.quota, rule.last);
        const bool has_permits = rule.quota.algorithm == Algorithm::concurrency;
        return std::max(step, has_permits ? 0 : newest_ - most - clock_.now());
    }

    void release_some(KeyedRule &rule) {
        while (!rule.held.empty() && traffic_.one_in(2)) {
            ASSERT_EQ(redis_.release(*rule.held.back()), "");
            for (const auto &[key, model] : rule.models) {
                static_cast<Concurrency &>(*model).release(rule.held.back()->name);
            }
            rule.held.pop_back();
        }
    }

    Redis redis_;
    Clock clock_;
    Traffic traffic_;
    redis_client::ObjectPool<Permit> pool_;
    redis_client::Permits permits_{pool_, redis_client::different_bytes};
    int rules_made_ = 0;
    int64_t newest_ = 0;
};

TEST_P(RulesTest, AreChargedAllOrNothingAndThoseOnTrialAfterAllOthers) {
    int uncharged = 0;
    int denied_on_trial = 0;
    for (int scenario = 0; scenario < 100; ++scenario) {
        std::vector<KeyedRule> rules = random_rules();
        clock_.move(1'000'000'000);
        for (int request = 0; request < 100; ++request) {
            clock_.move(step(rules[static_cast<size_t>(
                traffic_.between(0, static_cast<int64_t>(rules.size()) - 1))]));
            std::vector<std::string> keys;
            for (const KeyedRule &rule : rules) {
                keys.push_back(random_key(rule));
            }
            std::vector<Charge> charges;
            std::vector<Part> parts;
            for (size_t i = 0; i < rules.size(); ++i) {
                KeyedRule &rule = rules[i];
                release_some(rule);
                Quota quota = rule.quota;
                quota.cost = traffic_.cost(quota, rule.last);
                Permit *permit = nullptr;
                if (quota.algorithm == Algorithm::concurrency) {
                    permit = permits_.make(keys[i], quota.cost, quota.window);
                }
                charges.push_back(charge_of(quota, rule.aligned, keys[i], permit));
                charges.back().dry_run = rule.dry_run;
                auto &model = rule.models[keys[i]];
                if (model == nullptr) {
                    model = model_of(quota.algorithm, rule.aligned);
                }
                parts.push_back({&rule, model.get(), false, false});
            }
            decide(parts, charges, clock_.now());
            const auto [error, before, after] =
                redis_.check_and_look(charges, Redis::Looking::at_all);
            ASSERT_EQ(error, "");
            for (size_t i = 0; i < parts.size(); ++i) {
                const Charge &charge = charges[i];
                SCOPED_TRACE(described(charge.quota) + (charge.dry_run ? " dry_run" : "") +
                             ", rule " + std::to_string(i) + " of " + std::to_string(parts.size()));
                const Verdict expected = parts[i].model->verdict(charge.quota, clock_.now(),
                                                                 parts[i].fits, parts[i].charged);
                ASSERT_EQ(charge.is_charged, parts[i].charged);
                ASSERT_EQ(charge.verdict, expected);
                ASSERT_EQ(before[i] == after[i], !parts[i].charged || charge.quota.cost == 0);
                ASSERT_NE(after[i].time_to_live_ms, -1);
                if (charge.permit != nullptr && charge.is_charged && charge.quota.cost > 0) {
                    parts[i].rule->held.push_back(charge.permit);
                }
                parts[i].rule->last = charge.verdict;
                uncharged += parts[i].fits && !parts[i].charged ? 1 : 0;
                denied_on_trial += !parts[i].fits && charge.dry_run ? 1 : 0;
            }
        }
    }
    EXPECT_GT(uncharged, 500);
    EXPECT_GT(denied_on_trial, 200);
}

// Lua has room for 200 local names and 60 upvalues, and its stack for so many results.
TEST_P(RulesTest, AsManyAsOneCheckMayHold) {
    const auto check = [&](auto algorithm_at, bool dry_run) {
        const std::string prefix = std::to_string(++rules_made_) + ":";
        std::vector<std::string> keys;
        for (size_t i = 0; i < redis_client::most_rules; ++i) {
            keys.push_back(prefix + std::to_string(i));
        }
        std::vector<Charge> charges;
        for (size_t i = 0; i < keys.size(); ++i) {
            Quota quota;
            quota.algorithm = algorithm_at(i);
            quota.limit = 10 + i;
            quota.window = milliseconds(1000);
            quota.cost = 2;
            quota.burst = 9 + i;
            Permit *permit = quota.algorithm == Algorithm::concurrency
                                 ? permits_.make(keys[i], quota.cost, quota.window)
                                 : nullptr;
            charges.push_back(charge_of(quota, false, keys[i], permit));
            charges.back().dry_run = dry_run && i > 0;
        }
        ASSERT_EQ(redis_.check(charges), "");
        for (const Charge &charge : charges) {
            ASSERT_TRUE(charge.is_charged);
            ASSERT_EQ(charge.verdict.remaining, charge.quota.capacity() - 2);
            ASSERT_TRUE(redis_.has(charge.redis_key));
        }
    };
    for (const Algorithm algorithm : all_algorithms) {
        SCOPED_TRACE(to_string(algorithm));
        check([&](size_t) { return algorithm; }, false);
        check([&](size_t) { return algorithm; }, true);
    }
    check([](size_t i) { return all_algorithms[i % std::size(all_algorithms)]; }, false);
}

INSTANTIATE_TEST_SUITE_P(With, RulesTest, testing::Values(Scripts::own, Scripts::of_any_rules),
                         [](const auto &info) {
                             return info.param == Scripts::own ? "OwnScripts"
                                                               : "TheScriptOfAnyRules";
                         });

} // namespace
} // namespace model
