// Rules that block whom they deny, from their scripts and commands to their verdicts. What the
// script does in Redis is tested in t/model/block_model_test.cpp.

#include "rate_limit/rule/verdict.hpp"
#include "rate_limit/text/key.hpp"
#include "redis_client/control/peek.hpp"
#include "redis_client/script/answer.hpp"
#include "redis_client/script/commands.hpp"
#include "redis_client/script/lua_source.hpp"
#include "script_test.hpp"
#include "unit/redis_client/different_bytes.hpp"
#include "unit/redis_client/wire.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace redis_client {
namespace {

using rate_limit::Decision;
using rate_limit::Quota;
using rate_limit::Verdict;
using std::chrono::microseconds;

ScriptShape blocking_shape_of(const std::vector<Algorithm> &algorithms) {
    ScriptShape shape;
    for (const Algorithm algorithm : algorithms) {
        shape.add({.algorithm = algorithm, .blocks = true});
    }
    return shape;
}

/// A word that stands in lua/block.lua alone.
constexpr std::string_view word_of_block = "begins";

TEST(BlockScript, IsNoPartOfScriptsOfRulesThatDoNotBlock) {
    for (const auto &rules : many_rules()) {
        for (const bool dry_run : {false, true}) {
            const ScriptShape shape = shape_of(rules, dry_run);
            EXPECT_FALSE(shape.has_blocks());
            EXPECT_EQ(count_of(word_of_block, check_script(shape).source), 0u);
            EXPECT_EQ(count_of(word_of_block, batch_script(shape).source), 0u);
        }
    }
    for (const Algorithm algorithm : all_algorithms) {
        EXPECT_EQ(count_of(word_of_block, peek_script({.algorithm = algorithm}).source), 0u);
    }
    EXPECT_EQ(count_of(word_of_block, any_rules_script(Blocks::no).source), 0u);
    EXPECT_GT(count_of(word_of_block, any_rules_script(Blocks::yes).source), 0u);
}

TEST(BlockScript, HasAKeyAnArgumentAndAReplyBehindThoseOfItsRule) {
    for (const Algorithm algorithm : all_algorithms) {
        const size_t arguments = argument_count(algorithm);
        const size_t replies = rate_limit::reply_length(algorithm);
        ScriptShape shape = blocking_shape_of({algorithm});
        shape.add({.algorithm = algorithm});
        const std::string source = check_script(shape).source;
        EXPECT_EQ(numbers_after("KEYS[", source), one_to(3)) << source;
        EXPECT_EQ(numbers_after("ARGV[", source), one_to(2 * arguments + 1)) << source;
        EXPECT_EQ(numbers_after("reply_", source), one_to(2 * replies + 1)) << source;
        const std::string argument = "ARGV[" + std::to_string(arguments + 1) + "]";
        const std::string reply = "reply_" + std::to_string(replies + 1);
        const std::string parts[] = {
            reply + " = 0\nlocal begins_block = not fits\ndo\n",
            "state = call('GET', KEYS[2])",
            "'PX', " + argument + " + 5001)",
            "granted = granted and " + reply + " == 0\ngranted = granted and fits\ndo\n",
        };
        for (const std::string &expected : parts) {
            EXPECT_EQ(count_of(expected, source), 1u) << expected << "\nin\n" << source;
        }
        const size_t of_batch = 8 * (2 + 2 * replies);
        const std::string batch = batch_script(shape).source;
        EXPECT_EQ(numbers_after("#KEYS, ", batch), Numbers{3});
        EXPECT_EQ(numbers_after("rep('\\255', ", batch), Numbers{of_batch});
        EXPECT_EQ(count_of("pcall(check, KEYS[i + 0], KEYS[i + 1], KEYS[i + 2])", batch), 1u);
    }
}

TEST(BlockScript, IsKnownByItsShape) {
    ScriptShape shape = blocking_shape_of({Algorithm::gcra});
    EXPECT_TRUE(shape.has_blocks());
    EXPECT_NE(shape, shape_of({Algorithm::gcra}));
    shape.add({.algorithm = Algorithm::sliding_log, .dry_run = true});
    shape.add({.algorithm = Algorithm::concurrency, .blocks = true});
    ScriptShape::Letters letters;
    EXPECT_EQ(shape.letters(letters), "gbLcb");
    EXPECT_EQ(blocking_shape_of(std::vector(most_rules, Algorithm::gcra)).letters(letters),
              "gbgbgbgbgbgbgbgbgbgbgbgb");
    for (const Algorithm algorithm : all_algorithms) {
        EXPECT_NE(shape_of({algorithm}).letters(letters), "b");
    }
    ScriptLibrary library;
    EXPECT_EQ(library.check(shape).source, any_rules_script(Blocks::yes).source);
    EXPECT_EQ(library.check(shape_of({Algorithm::gcra})).source,
              any_rules_script(Blocks::no).source);
    library.add(shape);
    EXPECT_EQ(library.check(shape).source, check_script(shape).source);
    const ScriptShape most =
        blocking_shape_of(std::vector(most_rules_with_blocks, Algorithm::gcra));
    const ScriptShape more =
        blocking_shape_of(std::vector(most_rules_with_blocks + 1, Algorithm::gcra));
    library.add(most);
    library.add(more);
    EXPECT_TRUE(library.has(most));
    EXPECT_FALSE(library.has(more));
    EXPECT_EQ(library.batch(more), nullptr);
    EXPECT_EQ(library.check(more).source, any_rules_script(Blocks::yes).source);
}

TEST(ScriptShape, HasACodeOfItsOwnWithAnyPartsAndAsManyAsThereMayBe) {
    std::set<uint64_t> codes;
    std::vector<ScriptShape> shapes;
    const auto add = [&](const ScriptShape &shape) {
        if (std::ranges::find(shapes, shape) == shapes.end()) {
            shapes.push_back(shape);
            codes.insert(shape.code());
        }
    };
    std::minstd_rand random(1);
    for (int i = 0; i < 3000; ++i) {
        ScriptShape shape;
        for (size_t parts = 1 + random() % most_rules; parts > 0; --parts) {
            ScriptShape::Part part{.algorithm = all_algorithms[random() % all_algorithms.size()]};
            switch (random() % 5) {
            case 0:
                part.blocks = true;
                break;
            case 1:
                part.dry_run = true;
                break;
            case 2:
                part.may_lease = true;
                break;
            case 3:
                part.dry_run = part.may_lease = true;
                break;
            default:
                break;
            }
            shape.add(part);
        }
        add(shape);
    }
    add(blocking_shape_of(std::vector(most_rules, Algorithm::concurrency))); // the largest number
    add(blocking_shape_of(std::vector(most_rules - 1, Algorithm::concurrency)));
    EXPECT_EQ(codes.size(), shapes.size());
}

class BlockCommandsTest : public testing::Test {
  protected:
    Charge charge_of(Algorithm algorithm, std::string_view redis_key, uint64_t cost = 1) {
        Charge charge;
        charge.quota = quota_of(algorithm);
        charge.quota.cost = cost;
        charge.redis_key = redis_key;
        charge.arguments = &arguments_.emplace_back(check_arguments(charge.quota, false));
        if (algorithm == Algorithm::concurrency) {
            charge.permit = permits_.make(redis_key, cost, 60s);
        }
        charge.block = 15min;
        return charge;
    }
    /// The keys and arguments that are sent.
    WireCommand sent(const Command &first, const Script &script = Script("return 1\n")) {
        ByteQueue out;
        EXPECT_TRUE(write_checks(out, script, Sending::by_name, first, any_time));
        const Commands commands = parse_commands(out.bytes());
        EXPECT_EQ(commands.size(), 1u);
        return {commands[0].begin() + 2, commands[0].end()};
    }

    ObjectPool<Permit> pool_;
    Permits permits_{pool_, different_bytes};
    std::deque<WireWords> arguments_;
};

TEST_F(BlockCommandsTest, HaveTheKeyAndTheTimeOfABlockBehindThoseOfTheCounter) {
    std::vector<Charge> charges = {charge_of(Algorithm::fixed_window, "a"),
                                   charge_of(Algorithm::concurrency, "b"),
                                   charge_of(Algorithm::sliding_window, "c")};
    charges[2].block = 0ms;
    Command check;
    check.charges = charges;
    const WireCommand keys = {"5", "a", "a#block", "b", "b#block", "c"};
    const WireCommand arguments = {"100",
                                   "1",
                                   "60000000",
                                   "65001",
                                   "first",
                                   "900000",
                                   "100",
                                   "1",
                                   "60000000",
                                   "65001",
                                   std::string(charges[1].permit->name),
                                   "900000",
                                   "100",
                                   "1",
                                   "60000000",
                                   "125001"};
    WireCommand expected = keys;
    expected.insert(expected.end(), arguments.begin(), arguments.end());
    EXPECT_EQ(sent(check), expected);
    expected.insert(expected.begin() + 6, "fbcbs");
    EXPECT_EQ(sent(check, any_rules_script(Blocks::yes)), expected);
}

TEST_F(BlockCommandsTest, HaveNoTimeForACostThatIsNeverGranted) {
    for (const auto &[cost, time] : {std::pair(uint64_t{100}, "900000"), {101, "0"}}) {
        Charge charge = charge_of(Algorithm::fixed_window, "a", cost);
        Command check;
        check.charges = {&charge, 1};
        EXPECT_EQ(sent(check).back(), time);
    }
}

TEST_F(BlockCommandsTest, HaveTheKeysOfAllChecksOfABatch) {
    Charge charges[] = {charge_of(Algorithm::fixed_window, "a"),
                        charge_of(Algorithm::fixed_window, "b")};
    Command checks[2];
    checks[0].charges = {&charges[0], 1};
    checks[1].charges = {&charges[1], 1};
    checks[0].next_in_batch = &checks[1];
    EXPECT_EQ(sent(checks[0]), (WireCommand{"4", "a", "a#block", "b", "b#block", "100", "1",
                                            "60000000", "65001", "first", "900000"}));
}

TEST_F(BlockCommandsTest, PeekBeginsNoBlock) {
    for (const auto &[algorithm, arguments] :
         {std::pair(Algorithm::fixed_window,
                    WireCommand{"100", "1", "60000000", "65001", "first", "0"}),
          {Algorithm::concurrency, WireCommand{"100", "1", "60000000", "65001", "", "0"}}}) {
        ByteQueue out;
        ASSERT_TRUE(write_peek(out, quota_of(algorithm), false, "k", Blocks::yes, {}));
        const Commands commands = parse_commands(out.bytes());
        WireCommand expected = {"EVAL",
                                peek_script({.algorithm = algorithm, .blocks = true}).source, "2",
                                "k", "k#block"};
        expected.insert(expected.end(), arguments.begin(), arguments.end());
        EXPECT_EQ(commands, Commands{expected});
    }
}

constexpr int64_t answered_at = 1'700'000'000'000'000;

Charge charge_of(Algorithm algorithm, std::chrono::milliseconds block) {
    Charge charge;
    charge.quota = quota_of(algorithm);
    charge.block = block;
    return charge;
}

TEST(BlockAnswer, DeniesAndChargesNothing) {
    std::vector<Charge> charges = {charge_of(Algorithm::fixed_window, 15min),
                                   charge_of(Algorithm::fixed_window, 0min)};
    EXPECT_EQ(answer_size(charges), 8 * 6u);
    ASSERT_EQ(
        read_answer(packed({answered_at, 40, 7'000'000, 900'000'000, 30, 5'000'000}), charges),
        AnswerState::good);
    EXPECT_FALSE(charges[0].is_charged);
    EXPECT_FALSE(charges[1].is_charged);
    EXPECT_EQ(charges[0].blocked_for, 15min);
    EXPECT_EQ(charges[0].verdict, (Verdict{.decision = Decision::denied,
                                           .retry_after = 15min,
                                           .next_unit = 15min,
                                           .reset = 15min}));
    EXPECT_EQ(charges[0].last_verdict().decision, Decision::granted);
    EXPECT_EQ(charges[0].last_verdict().remaining, 41u);
    EXPECT_EQ(charges[1].verdict.decision, Decision::granted);
    EXPECT_EQ(charges[1].verdict.remaining, 31u);

    ASSERT_EQ(read_answer(packed({answered_at, 40, 7'000'000, 0, 30, 5'000'000}), charges),
              AnswerState::good);
    EXPECT_TRUE(charges[0].is_charged);
    EXPECT_TRUE(charges[1].is_charged);
    EXPECT_EQ(charges[0].blocked_for, 0s);
    EXPECT_EQ(charges[0].verdict, charges[0].last_verdict());
}

TEST(BlockAnswer, HasNoTimesThatNoBlockHas) {
    for (const int64_t left : {int64_t{-1}, (int64_t{1} << 53) + 1, INT64_MIN, INT64_MAX}) {
        std::vector<Charge> charges = {charge_of(Algorithm::fixed_window, 15min)};
        EXPECT_EQ(read_answer(packed({answered_at, 40, 7'000'000, left}), charges),
                  AnswerState::impossible);
        EXPECT_FALSE(charges[0].is_charged);
        EXPECT_EQ(charges[0].blocked_for, 0s);
        EXPECT_FALSE(read_peek_answer(packed({answered_at, 40, 7'000'000, left}), charges[0].quota,
                                      Blocks::yes));
    }
}

TEST(BlockAnswer, IsSeenByAPeek) {
    const Quota quota = quota_of(Algorithm::fixed_window);
    const auto blocked =
        read_peek_answer(packed({answered_at, 40, 7'000'000, 900'000'000}), quota, Blocks::yes);
    ASSERT_TRUE(blocked);
    EXPECT_EQ(blocked->retry_after, 15min);
    EXPECT_EQ(blocked->remaining, 0u);
    const auto free = read_peek_answer(packed({answered_at, 40, 7'000'000, 0}), quota, Blocks::yes);
    ASSERT_TRUE(free);
    EXPECT_EQ(free->remaining, 41u);
    EXPECT_FALSE(read_peek_answer(packed({answered_at, 40, 7'000'000}), quota, Blocks::yes));
    EXPECT_FALSE(read_peek_answer(packed({answered_at, 40, 7'000'000, 0}), quota, Blocks::no));
}

Verdict blocked(const Quota &quota, const Verdict &of_counter, microseconds time) {
    return rate_limit::verdict_of_blocked(quota, of_counter, time);
}

TEST(BlockVerdict, HasTheLongerTimes) {
    const Quota quota = quota_of(Algorithm::fixed_window);
    const Verdict denied{
        .decision = Decision::denied, .retry_after = 7s, .next_unit = 7s, .reset = 7s};
    EXPECT_EQ(blocked(quota, denied, 5s), denied);
    EXPECT_EQ(
        blocked(quota, denied, 9s),
        (Verdict{.decision = Decision::denied, .retry_after = 9s, .next_unit = 9s, .reset = 9s}));
}

TEST(BlockVerdict, LeavesNothingUntilTheEndAndThenWhatTheCounterHas) {
    const Quota quota = quota_of(Algorithm::fixed_window);
    const Verdict some_left{.remaining = 3, .next_unit = 50s, .reset = 50s, .delay = 2s};
    EXPECT_EQ(
        blocked(quota, some_left, 9s),
        (Verdict{.decision = Decision::denied, .retry_after = 9s, .next_unit = 9s, .reset = 50s}));
}

TEST(BlockVerdict, OfACostThatIsNeverGrantedStaysNever) {
    Quota quota = quota_of(Algorithm::fixed_window);
    quota.cost = 101;
    const Verdict verdict = blocked(quota, {.decision = Decision::never, .remaining = 100}, 9s);
    EXPECT_EQ(verdict.decision, Decision::never);
    EXPECT_EQ(verdict.remaining, 0u);
    EXPECT_EQ(verdict.retry_after, 0s);
}

TEST(BlockVerdict, OfRequestsInFlightTellsNoTimeOfAUnit) {
    const Quota quota = quota_of(Algorithm::concurrency);
    EXPECT_EQ(blocked(quota, {.remaining = 2, .reset = 1s}, 9s),
              (Verdict{.decision = Decision::denied, .retry_after = 9s, .reset = 9s}));
}

TEST(BlockKey, IsThatOfNoCounter) {
    EXPECT_FALSE(rate_limit::is_name(rate_limit::block_suffix.substr(0, 1)));
    EXPECT_FALSE(rate_limit::is_counter_name("gcra:60000" + std::string(rate_limit::block_suffix)));
    EXPECT_FALSE(
        rate_limit::is_counter_name("gcra:60000:a" + std::string(rate_limit::block_suffix)));
}

} // namespace
} // namespace redis_client
