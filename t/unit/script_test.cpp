#include "redis_client/script.hpp"

#include "algorithms.hpp"
#include "rate_limit/verdict.hpp"
#include "redis_client/arguments.hpp"
#include "redis_client/lua_source.hpp"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace redis_client {
namespace {

using namespace std::chrono_literals;
using rate_limit::Algorithm;
using rate_limit::all_algorithms;

using Numbers = std::set<size_t>;

std::string sha1(std::string_view text) {
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    EVP_Digest(text.data(), text.size(), hash, &size, EVP_sha1(), nullptr);
    std::string hex;
    for (unsigned int i = 0; i < size; ++i) {
        char digits[3];
        std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned>(hash[i]));
        hex += digits;
    }
    return hex;
}

std::string file_of(const std::string &name) {
    std::string path = __FILE__;
    path.erase(path.rfind("t/unit/"));
    std::ifstream file(path + "lua/" + name + ".lua", std::ios::binary);
    EXPECT_TRUE(file) << name;
    return {std::istreambuf_iterator<char>(file), {}};
}

/// The numbers behind a text: `ARGV[` in `ARGV[1] - ARGV[2]` gives 1 and 2.
Numbers numbers_after(std::string_view before, std::string_view text) {
    Numbers numbers;
    for (size_t at = text.find(before); at != std::string_view::npos; at = text.find(before, at)) {
        at += before.size();
        numbers.insert(std::stoul(std::string(text.substr(at, 5))));
    }
    return numbers;
}

Numbers one_to(size_t last) {
    Numbers numbers;
    for (size_t i = 1; i <= last; ++i) {
        numbers.insert(i);
    }
    return numbers;
}

size_t count_of(std::string_view what, std::string_view text) {
    size_t count = 0;
    for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) {
        ++count;
    }
    return count;
}

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const size_t end = text.find('\n');
        lines.push_back(text.substr(0, end));
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    return lines;
}

rate_limit::Quota quota_of(Algorithm algorithm) {
    return {.algorithm = algorithm, .window = 60s, .limit = 100};
}

/// How many ARGV a rule has in a check.
size_t argument_count(Algorithm algorithm) {
    return check_arguments(quota_of(algorithm), false).count() +
           (algorithm == Algorithm::concurrency ? 1 : 0);
}

ScriptShape shape_of(const std::vector<Algorithm> &algorithms, bool dry_run = false) {
    ScriptShape shape;
    for (const Algorithm algorithm : algorithms) {
        shape.add({.algorithm = algorithm, .dry_run = dry_run});
    }
    return shape;
}

/// Of one rule of each kind, of `most_rules` of each, and of all kinds.
std::vector<std::vector<Algorithm>> many_rules() {
    std::vector<std::vector<Algorithm>> rules;
    for (const Algorithm algorithm : all_algorithms) {
        rules.push_back({algorithm});
        rules.emplace_back(most_rules, algorithm);
    }
    rules.emplace_back(std::begin(all_algorithms), std::end(all_algorithms));
    rules.emplace_back(std::rbegin(all_algorithms), std::rend(all_algorithms));
    return rules;
}

TEST(LuaSource, IsTheFileCutIntoItsParts) {
    const std::pair<Algorithm, std::string> files[] = {
        {Algorithm::fixed_window, "fixed_window"},
        {Algorithm::sliding_log, "sliding_log"},
        {Algorithm::sliding_window, "sliding_window"},
        {Algorithm::token_bucket, "gcra"},
        {Algorithm::gcra, "gcra"},
        {Algorithm::leaky_bucket, "gcra"},
        {Algorithm::concurrency, "concurrency"},
    };
    for (const auto &[algorithm, name] : files) {
        const LuaSource source = lua_source(algorithm);
        std::string whole = std::string(source.check) + "\n-- charge\n" +
                            std::string(source.charge) + "\n-- refund\n" +
                            std::string(source.refund);
        if (algorithm == Algorithm::concurrency) {
            whole += "\n-- renew\n" + std::string(source.renew);
        }
        EXPECT_EQ(whole, file_of(name));
    }
    const LuaFrame frame = lua_frame();
    EXPECT_EQ(std::string(frame.head) + "\n-- rules\n" + std::string(frame.tail), file_of("frame"));
    const LuaFrame run = lua_run();
    EXPECT_EQ(std::string(run.head) + "\n-- rules\n" + std::string(run.tail), file_of("run"));
}

TEST(Script, IsNamedByItsSha1) {
    for (const auto &rules : many_rules()) {
        const Script script = check_script(shape_of(rules));
        EXPECT_EQ(script.sha1.size(), 40u);
        EXPECT_EQ(script.sha1, sha1(script.source));
        const Script run = run_script(shape_of(rules));
        EXPECT_EQ(run.sha1, sha1(run.source));
        EXPECT_NE(run.sha1, script.sha1);
    }
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
             "now + ARGV[3]), 'PX', ARGV[6])",
             "local left = ARGV[7] - ARGV[8] - taken",
             "string.format('%d', now + ARGV[9]), ARGV[11])",
             "call('PEXPIRE', KEYS[2], ARGV[10])",
             "local left = ARGV[12] - ARGV[13] - taken",
             "call('SET', KEYS[3], pack('<dd', window_end, ARGV[13]), 'PX', ARGV[15])",
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

TEST(RunScript, HasTheRulesOfACheckWithTheKeysAsParameters) {
    for (const auto &rules : many_rules()) {
        std::string check = rules_of(check_script(shape_of(rules)).source);
        for (size_t i = 1; i <= rules.size(); ++i) {
            const std::string key = "KEYS[" + std::to_string(i) + "]";
            for (size_t at = check.find(key); at != std::string::npos; at = check.find(key)) {
                check.replace(at, key.size(), "key_" + std::to_string(i));
            }
        }
        EXPECT_EQ(rules_of(run_script(shape_of(rules)).source), check);
    }
}

TEST(RunScript, TakesTheKeysOfOneCheckAfterAnother) {
    for (const auto &rules : many_rules()) {
        const std::string source = run_script(shape_of(rules)).source;
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
        run_script(shape_of({Algorithm::gcra, Algorithm::fixed_window})).source;
    for (const std::string_view expected :
         {"local function check(key_1, key_2)\nlocal granted = true\nlocal reply_1,",
          "for i = 1, #KEYS, 2 do\n", "pcall(check, KEYS[i + 0], KEYS[i + 1])"}) {
        EXPECT_EQ(count_of(expected, source), 1u) << expected << "\nin\n" << source;
    }
}

TEST(ScriptShape, IsEqualWhereItsPartsAre) {
    EXPECT_EQ(ScriptShape(), ScriptShape());
    EXPECT_EQ(shape_of({Algorithm::gcra}), shape_of({Algorithm::gcra}));
    EXPECT_NE(shape_of({Algorithm::gcra}), shape_of({Algorithm::leaky_bucket}));
    EXPECT_NE(shape_of({Algorithm::gcra}), shape_of({Algorithm::gcra}, true));
    EXPECT_NE(shape_of({Algorithm::gcra}), shape_of({Algorithm::gcra, Algorithm::gcra}));
    EXPECT_NE(shape_of({Algorithm::fixed_window}), ScriptShape());
}

TEST(ScriptShape, KnowsItsAlgorithms) {
    const ScriptShape shape = shape_of({Algorithm::gcra, Algorithm::concurrency});
    EXPECT_TRUE(shape.has(Algorithm::gcra));
    EXPECT_TRUE(shape.has(Algorithm::concurrency));
    EXPECT_FALSE(shape.has(Algorithm::leaky_bucket));
    EXPECT_FALSE(shape.has(Algorithm::fixed_window)); // of which there are parts left
    EXPECT_FALSE(ScriptShape().has(Algorithm::fixed_window));
}

TEST(ScriptLibrary, MakesEachScriptOnce) {
    ScriptLibrary library;
    std::vector<const Script *> scripts;
    for (const auto &rules : many_rules()) {
        scripts.push_back(&library.check(shape_of(rules)));
    }
    for (size_t i = 0; i < scripts.size(); ++i) {
        const ScriptShape shape = shape_of(many_rules()[i]);
        EXPECT_EQ(&library.check(shape), scripts[i]);
        EXPECT_EQ(scripts[i]->source, check_script(shape).source);
        EXPECT_EQ(&library.run(shape), &library.run(shape));
        EXPECT_EQ(library.run(shape).source, run_script(shape).source);
    }
    for (const Algorithm algorithm : all_algorithms) {
        const Script *refund = &library.refund(algorithm);
        library.refund(Algorithm::gcra);
        EXPECT_EQ(&library.refund(algorithm), refund);
        EXPECT_EQ(refund->source, refund_script(algorithm).source);
    }
    EXPECT_EQ(&library.renew(), &library.renew());
    EXPECT_EQ(library.renew().source, renew_script().source);
}

TEST(Script, HasAsManyArgumentsAsItsFileUses) {
    for (const Algorithm algorithm : all_algorithms) {
        const LuaSource source = lua_source(algorithm);
        const std::string check = std::string(source.check) + std::string(source.charge);
        EXPECT_EQ(numbers_after("ARGV[", check), one_to(argument_count(algorithm)));
        const size_t of_refund = algorithm == Algorithm::concurrency
                                     ? 1 // the slot
                                     : refund_arguments(quota_of(algorithm), 1).count();
        EXPECT_EQ(numbers_after("ARGV[", refund_script(algorithm).source), one_to(of_refund));
    }
}

TEST(Script, RepliesAsManyNumbersAsItsVerdictReads) {
    for (const Algorithm algorithm : all_algorithms) {
        EXPECT_EQ(numbers_after("REPLY[", lua_source(algorithm).charge),
                  one_to(rate_limit::reply_length(algorithm)));
    }
}

TEST(RefundScript, TakesOneKeyAndRepliesNothing) {
    for (const Algorithm algorithm : all_algorithms) {
        const Script script = refund_script(algorithm);
        EXPECT_EQ(script.sha1, sha1(script.source));
        EXPECT_EQ(numbers_after("KEYS[", script.source), one_to(1));
        EXPECT_EQ(count_of("\nreturn", script.source), 0u);
        EXPECT_EQ(count_of("\n--", script.source), 0u);
    }
    EXPECT_EQ(refund_script(Algorithm::gcra).sha1, refund_script(Algorithm::token_bucket).sha1);
}

TEST(RenewScript, TakesThreeArgumentsForEachKey) {
    const std::string source = renew_script().source;
    EXPECT_EQ(count_of("ipairs(KEYS)", source), 1u);
    EXPECT_EQ(count_of("ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]", source), 1u);
}

} // namespace
} // namespace redis_client
