// Rules that block whom they deny, beside a model of the block and the models of their algorithms.

#include "model_test.hpp"
#include "unit/redis_client/different_bytes.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace model {
namespace {

using namespace std::chrono_literals;

std::string block_key(std::string_view key) {
    return std::string(key) + "#block";
}

/// A client's block at one counter.
class Block {
  public:
    /// Says what is left of it, after a check that the rule itself granted or not. A check begins a
    /// block for `length` if that is not 0.
    microseconds after_check(bool fits, microseconds length, int64_t now) {
        const bool is_ahead = now < begun_ && now < ends_; // the clock stepped back
        if (length.count() > 0 && (is_ahead || (now >= ends_ && !fits))) {
            begun_ = now;
            ends_ = now + length.count();
        }
        return microseconds(std::max<int64_t>(ends_ - now, 0));
    }

  private:
    int64_t begun_ = 0;
    int64_t ends_ = 0;
};

struct Counter {
    std::unique_ptr<Model> model;
    Block block;
};

struct BlockingRule {
    Quota quota;
    bool dry_run;
    milliseconds block;
    std::string name;
    std::map<std::string, Counter> counters; // by key
    Charge last;
};

/// How the checks go to Redis.
enum class Asking { one_by_one, by_any_rules, in_batches };

class BlocksTest : public testing::TestWithParam<Asking> {
  protected:
    BlocksTest() {
        if (GetParam() == Asking::by_any_rules) {
            redis_.ask_any_rules();
        }
    }

    bool asks_in_batches() const { return GetParam() == Asking::in_batches; }

    Algorithm
    random_algorithm() { // each check in a batch with permits would have arguments of its own
        return all_algorithms[static_cast<size_t>(traffic_.between(0, asks_in_batches() ? 5 : 6))];
    }

    std::vector<BlockingRule> random_rules() {
        std::vector<BlockingRule> rules(static_cast<size_t>(traffic_.between(1, 4)));
        for (BlockingRule &rule : rules) {
            rule.quota = traffic_.small_quota(random_algorithm());
            rule.dry_run = traffic_.one_in(5);
            const bool blocks = !rule.dry_run && !traffic_.one_in(4);
            rule.block =
                milliseconds(blocks ? traffic_.one_of({1000, 1001, 1500, 10'000, 900'000}) : 0);
            rule.name = std::to_string(++rules_made_);
            rule.last.verdict.remaining = rule.quota.capacity();
            for (const char *key : {":1", ":2"}) {
                rule.counters[rule.name + key].model = model_of(rule.quota.algorithm, false);
            }
        }
        return rules;
    }

    /// Charges for rules whose quotas have their costs. The texts of the keys stay where they are.
    std::vector<Charge> random_check(std::vector<BlockingRule> &rules) {
        std::vector<Charge> charges;
        for (BlockingRule &rule : rules) {
            const auto counter = std::next(rule.counters.begin(), traffic_.between(0, 1));
            Permit *permit = rule.quota.algorithm == Algorithm::concurrency
                                 ? permits_.make(counter->first, rule.quota.cost, rule.quota.window)
                                 : nullptr;
            charges.push_back(charge_of(rule.quota, false, counter->first, permit));
            charges.back().dry_run = rule.dry_run;
            charges.back().block = rule.block;
        }
        return charges;
    }

    void ask(std::span<std::vector<Charge>> checks) {
        if (asks_in_batches()) {
            for (const std::string &error : redis_.check_run(checks)) {
                ASSERT_EQ(error, "");
            }
            return;
        }
        for (std::vector<Charge> &charges : checks) {
            ASSERT_EQ(redis_.check(charges), "");
        }
    }

    /// What the models say of a check, which then have it charged.
    void expect_of_models(std::vector<BlockingRule> &rules, std::span<const Charge> charges) {
        struct Part {
            Counter *counter;
            bool fits;
            microseconds left;
        };
        std::vector<Part> parts;
        bool granted = true;
        for (size_t i = 0; i < rules.size(); ++i) {
            Counter &counter = rules[i].counters.at(std::string(charges[i].redis_key));
            const Quota &quota = rules[i].quota;
            const bool fits = counter.model->fits(quota, clock_.now());
            const bool may_begin = quota.cost <= quota.capacity();
            const microseconds left =
                rules[i].block.count() == 0
                    ? 0us
                    : counter.block.after_check(fits, may_begin ? rules[i].block : 0ms,
                                                clock_.now());
            parts.push_back({&counter, fits, left});
            granted = granted && (rules[i].dry_run || (fits && left == 0us));
        }
        for (size_t i = 0; i < rules.size(); ++i) {
            const Charge &charge = charges[i];
            const Quota &quota = rules[i].quota;
            const auto &[counter, fits, left] = parts[i];
            SCOPED_TRACE(described(quota) + " block=" + std::to_string(rules[i].block.count()) +
                         "ms, rule " + std::to_string(i) + " of " + std::to_string(rules.size()));
            const bool is_charged = granted && fits;
            if (is_charged && quota.cost > 0 && charge.permit != nullptr) {
                static_cast<Concurrency &>(*counter->model)
                    .take_permit(quota, clock_.now(), charge.permit->name);
            } else if (is_charged && quota.cost > 0) {
                counter->model->take(quota, clock_.now());
            }
            const Verdict of_counter =
                counter->model->verdict(quota, clock_.now(), fits, is_charged);
            ASSERT_EQ(charge.is_charged, is_charged);
            ASSERT_EQ(charge.blocked_for, left);
            ASSERT_EQ(charge.last_verdict(), of_counter);
            if (left == 0us) {
                ASSERT_EQ(charge.verdict, of_counter);
            } else {
                expect_blocked(charge, of_counter);
            }
            expect_key(charge);
            ++(left > 0us ? (fits ? blocked_ : denied_) : granted_);
        }
    }

    static void expect_blocked(const Charge &charge, const Verdict &of_counter) {
        const Verdict &verdict = charge.verdict;
        const microseconds left = charge.blocked_for;
        const bool never = of_counter.decision == Decision::never;
        ASSERT_EQ(verdict.decision, never ? Decision::never : Decision::denied);
        ASSERT_EQ(verdict.remaining, 0u);
        ASSERT_EQ(verdict.delay, 0us);
        ASSERT_EQ(verdict.reset, std::max(of_counter.reset, left));
        ASSERT_EQ(verdict.retry_after, never ? 0us : std::max(of_counter.retry_after, left));
        if (charge.quota.algorithm == Algorithm::concurrency) {
            ASSERT_EQ(verdict.next_unit, 0us);
        } else if (of_counter.remaining > 0) {
            ASSERT_EQ(verdict.next_unit, left) << "what is left can be taken then";
        } else {
            ASSERT_EQ(verdict.next_unit, std::max(of_counter.next_unit, left));
        }
    }

    void expect_key(const Charge &charge) {
        const int64_t left_ms = charge.blocked_for.count() / 1000;
        const int64_t time_to_live = redis_.time_to_live_ms(block_key(charge.redis_key));
        ASSERT_NE(time_to_live, -1);
        ASSERT_TRUE(left_ms == 0 || time_to_live >= left_ms + 5000) << time_to_live;
        ASSERT_LE(time_to_live, 900'000 + 5001 + 2000); // and the step back
    }

    /// To a time at which something changes, or not so far back that Redis could have forgotten
    /// what would count again.
    void move(const BlockingRule &rule) {
        int64_t step = traffic_.step(rule.quota, rule.last.verdict);
        if (rule.last.blocked_for > 0us && traffic_.one_in(3)) {
            step = rule.last.blocked_for.count() - traffic_.one_of({0, 1});
        }
        newest_ = std::max(newest_, clock_.now());
        clock_.move(std::max(step, has_permits_ ? 0 : newest_ - 2'000'000 - clock_.now()));
    }

    Redis redis_;
    Clock clock_;
    Traffic traffic_;
    redis_client::ObjectPool<Permit> pool_;
    redis_client::Permits permits_{pool_, redis_client::different_bytes};
    bool has_permits_ = false;
    int rules_made_ = 0;
    int64_t newest_ = 0;
    int granted_ = 0;
    int blocked_ = 0;
    int denied_ = 0;
};

TEST_P(BlocksTest, HoldAsTheModelSaysBesideOtherRules) {
    for (int scenario = 0; scenario < 80; ++scenario) {
        std::vector<BlockingRule> rules = random_rules();
        has_permits_ = std::ranges::any_of(rules, [](const BlockingRule &rule) {
            return rule.quota.algorithm == Algorithm::concurrency;
        });
        clock_.move(1'000'000'000);
        for (int request = 0; request < 60; ++request) {
            for (BlockingRule &rule : rules) {
                rule.quota.cost = traffic_.cost(rule.quota, rule.last.verdict);
            }
            move(rules[static_cast<size_t>(
                traffic_.between(0, static_cast<int64_t>(rules.size()) - 1))]);
            std::vector<std::vector<Charge>> checks;
            for (int64_t i = traffic_.between(1, 4); i > 0; --i) {
                checks.push_back(random_check(rules));
            }
            ask(checks);
            for (const std::vector<Charge> &charges : checks) {
                expect_of_models(rules, charges);
                if (HasFatalFailure()) {
                    return;
                }
            }
            for (size_t i = 0; i < rules.size(); ++i) {
                rules[i].last = checks.back()[i];
            }
        }
    }
    EXPECT_GT(std::min({granted_, blocked_, denied_}), 500);
}

// Lua has room for 200 local names.
TEST_P(BlocksTest, AreOfAsManyRulesAsOneCheckMayHold) {
    const size_t most =
        asks_in_batches() ? redis_client::most_rules_with_blocks : redis_client::most_rules;
    for (const Algorithm algorithm : all_algorithms) {
        if (asks_in_batches() && algorithm == Algorithm::concurrency) {
            continue;
        }
        SCOPED_TRACE(to_string(algorithm));
        std::vector<BlockingRule> rules(most);
        for (BlockingRule &rule : rules) {
            rule.quota = {.algorithm = algorithm, .window = 1000s, .limit = 1};
            rule.block = 2000s;
            rule.name = std::to_string(++rules_made_);
            rule.counters[rule.name + ":1"].model = model_of(algorithm, false);
            rule.counters[rule.name + ":2"].model = model_of(algorithm, false);
        }
        std::vector<std::vector<Charge>> checks = {random_check(rules), random_check(rules)};
        for (std::vector<Charge> &check : checks) {
            check.back().redis_key = checks[0].back().redis_key;
        }
        ask(checks);
        for (size_t i = 0; i < most; ++i) {
            ASSERT_TRUE(checks[0][i].is_charged);
            ASSERT_FALSE(checks[1][i].is_charged);
        }
        ASSERT_EQ(checks[1].back().blocked_for, 2000s);
    }
}

std::string name_of(const testing::TestParamInfo<Asking> &info) {
    switch (info.param) {
    case Asking::one_by_one:
        return "OneByOne";
    case Asking::by_any_rules:
        return "ByAnyRules";
    case Asking::in_batches:
        break;
    }
    return "InBatches";
}

INSTANTIATE_TEST_SUITE_P(Asking, BlocksTest,
                         testing::Values(Asking::one_by_one, Asking::by_any_rules,
                                         Asking::in_batches),
                         name_of);

} // namespace
} // namespace model
