#include "script_test.hpp"

#include "rate_limit/rule/verdict.hpp"
#include "redis_client/script/lua_source.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace redis_client {
namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const size_t end = text.find('\n');
        lines.push_back(text.substr(0, end));
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    return lines;
}

TEST(CheckScript, NumbersKeysArgumentsAndRepliesThroughAllRules) {
    for (const auto &rules : many_rules()) {
        const std::string source = check_script(shape_of(rules)).source;
        size_t arguments = 0;
        size_t replies = 0;
        for (const Algorithm algorithm : rules) {
            arguments += argument_count(algorithm);
            replies += rate_limit::reply_length(algorithm);
        }
        EXPECT_EQ(numbers_after("KEYS[", source), one_to(rules.size())) << source;
        EXPECT_EQ(numbers_after("ARGV[", source), one_to(arguments)) << source;
        EXPECT_EQ(numbers_after("reply_", source), one_to(replies)) << source;
        EXPECT_EQ(count_of("REPLY", source), 0u) << source;
    }
}

TEST(CheckScript, GivesEachRuleTheArgumentsBehindThoseOfTheRulesBefore) {
    const std::string source =
        check_script(shape_of({Algorithm::gcra, Algorithm::concurrency, Algorithm::fixed_window}))
            .source;
    for (const std::string_view expected : {
             "local serves, life = now + ARGV[3], ARGV[6]\n",
             "local left = ARGV[7] - ARGV[8] - taken",
             "string.format('%d', now + ARGV[9]), ARGV[11])",
             "call('PEXPIRE', KEYS[2], ARGV[10])",
             "local left = ARGV[12] - ARGV[13] - taken",
             "call('SET', KEYS[3], pack('<dd', marked_end, ARGV[13]), 'PX', ARGV[15])",
             "if ARGV[16] == 'aligned' then",
             "reply_1, reply_2, reply_3 = fits and",
             "reply_4 = left",
             "reply_5, reply_6 = left, window_end - now",
             "return pack('<i8i8i8i8i8i8i8', now, reply_1, reply_2, reply_3, reply_4, reply_5, "
             "reply_6)",
         }) {
        EXPECT_EQ(count_of(expected, source), 1u) << expected << "\nin\n" << source;
    }
}

TEST(CheckScript, ChecksAllRulesBeforeItChargesTheFirst) {
    const std::string source =
        check_script(shape_of({Algorithm::sliding_log, Algorithm::fixed_window})).source;
    const std::string_view in_order[] = {
        "local granted = true",
        "local reply_1, reply_2, reply_3, reply_4, reply_5, reply_6\n",
        "call('LLEN', KEYS[1])",
        "granted = granted and fits\ndo\n",
        "call('GET', KEYS[2])",
        "granted = granted and fits\ndo\nend\n",
        "call('SET', KEYS[2]",
        "reply_5, reply_6 =",
        "end\nif granted",
        "call('RPUSH', KEYS[1]",
        "reply_1, reply_2, reply_3, reply_4 =",
        "return pack(",
    };
    size_t at = 0;
    for (const std::string_view text : in_order) {
        const size_t found = source.find(text, at);
        ASSERT_NE(found, std::string::npos) << text << "\nin\n" << source;
        at = found;
    }
}

TEST(CheckScript, WritesOnlyWhereAllGrant) {
    for (const Algorithm algorithm : all_algorithms) {
        const LuaSource source = lua_source(algorithm);
        EXPECT_TRUE(source.charge.substr(0, 30).find("if granted and fits") !=
                    std::string_view::npos)
            << source.charge;
        for (const std::string_view write : {"'SET'", "'SETRANGE'", "PUSH", "'LTRIM'", "'UNLINK'",
                                             "'DEL'", "EXPIRE", "'ZADD'", "'ZREM"}) {
            EXPECT_EQ(count_of(write, source.check), 0u) << write;
        }
    }
}

TEST(CheckScript, LetsARuleOnTrialDenyNothing) {
    for (const Algorithm algorithm : all_algorithms) {
        ScriptShape shape;
        shape.add({.algorithm = algorithm, .dry_run = true});
        const std::string alone = check_script(shape).source;
        EXPECT_EQ(count_of("granted = granted and fits", alone), 0u) << alone;
        shape.add({.algorithm = algorithm, .dry_run = false});
        const std::string before_another = check_script(shape).source;
        EXPECT_EQ(count_of("granted = granted and fits", before_another), 1u);
        EXPECT_LT(before_another.find("KEYS[2]"),
                  before_another.find("granted = granted and fits"));
        EXPECT_EQ(numbers_after("ARGV[", before_another), one_to(2 * argument_count(algorithm)));
    }
}

TEST(CheckScript, HasNoCommentLinesAndNoEmptyOnes) {
    for (const auto &rules : many_rules()) {
        const std::string source = check_script(shape_of(rules)).source;
        EXPECT_EQ(source.back(), '\n');
        for (const std::string_view line : lines_of(source)) {
            const size_t begin = line.find_first_not_of(' ');
            ASSERT_NE(begin, std::string_view::npos) << source;
            EXPECT_NE(line.substr(begin, 2), "--");
        }
    }
}

TEST(CheckScript, DiffersWhereShapesDiffer) {
    std::set<std::string> names;
    size_t count = 0;
    const auto add = [&](const ScriptShape &shape) {
        names.insert(check_script(shape).sha1);
        ++count;
    };
    for (const Algorithm first : {Algorithm::fixed_window, Algorithm::sliding_log,
                                  Algorithm::sliding_window, Algorithm::gcra}) {
        add(shape_of({first}));
        add(shape_of({first}, true));
        for (const Algorithm second : {Algorithm::sliding_log, Algorithm::concurrency}) {
            add(shape_of({first, second}));
            add(shape_of({first, second}, true));
            ScriptShape mixed = shape_of({first});
            mixed.add({.algorithm = second, .dry_run = true});
            add(mixed);
        }
    }
    EXPECT_EQ(names.size(), count);
}

/// A check's rules as lines, from the first to the last line that is theirs.
std::string rules_of(const std::string &source) {
    const size_t begin = source.find("local reply_1");
    return source.substr(begin, source.find("return pack('<") - begin);
}

TEST(BatchScript, HasTheRulesOfACheckWithTheKeysAsParameters) {
    for (const auto &rules : many_rules()) {
        std::string check = rules_of(check_script(shape_of(rules)).source);
        for (size_t i = 1; i <= rules.size(); ++i) {
            const std::string key = "KEYS[" + std::to_string(i) + "]";
            for (size_t at = check.find(key); at != std::string::npos; at = check.find(key)) {
                check.replace(at, key.size(), "key_" + std::to_string(i));
            }
        }
        EXPECT_EQ(rules_of(batch_script(shape_of(rules)).source), check);
    }
}

TEST(BatchScript, TakesTheKeysOfOneCheckAfterAnother) {
    for (const auto &rules : many_rules()) {
        const std::string source = batch_script(shape_of(rules)).source;
        Numbers offsets;
        size_t replies = 0;
        for (size_t i = 0; i < rules.size(); ++i) {
            offsets.insert(i);
            replies += rate_limit::reply_length(rules[i]);
        }
        EXPECT_EQ(numbers_after("key_", source), one_to(rules.size())) << source;
        EXPECT_EQ(numbers_after("KEYS[i + ", source), offsets) << source;
        EXPECT_EQ(numbers_after("#KEYS, ", source), Numbers{rules.size()}) << source;
        EXPECT_EQ(numbers_after("rep('\\255', ", source), Numbers{8 * (1 + replies)}) << source;
        for (const std::string_view name : {"REPLY", "KEY_", "OF_CHECK", "ANSWER_SIZE", "\n--"}) {
            EXPECT_EQ(count_of(name, source), 0u) << name << " in\n" << source;
        }
    }
    const std::string source =
        batch_script(shape_of({Algorithm::gcra, Algorithm::fixed_window})).source;
    for (const std::string_view expected :
         {"local function check(key_1, key_2)\nlocal granted = true\nlocal reply_1,",
          "for i = 1, #KEYS, 2 do\n", "pcall(check, KEYS[i + 0], KEYS[i + 1])"}) {
        EXPECT_EQ(count_of(expected, source), 1u) << expected << "\nin\n" << source;
    }
}

} // namespace
} // namespace redis_client
