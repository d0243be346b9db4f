#include "script_test.hpp"

#include "rate_limit/rule/verdict.hpp"
#include "redis_client/script/lua_source.hpp"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace redis_client {
namespace {

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

TEST(LuaSource, IsTheFileCutIntoItsParts) {
    const std::pair<Algorithm, std::string> files[] = {
        {Algorithm::fixed_window, "fixed_window"},
        {Algorithm::sliding_log, "sliding_log"},
        {Algorithm::sliding_window, "sliding_window"},
        {Algorithm::token_bucket, "bucket"},
        {Algorithm::gcra, "bucket"},
        {Algorithm::leaky_bucket, "bucket"},
        {Algorithm::concurrency, "concurrency"},
    };
    for (const auto &[algorithm, name] : files) {
        const LuaSource source = lua_source(algorithm);
        std::string whole =
            std::string(source.check) + "\n-- charge\n" + std::string(source.charge);
        if (algorithm != Algorithm::concurrency) {
            whole += "\n-- lease\n" + std::string(source.lease);
        }
        if (!source.debt.empty()) { // else it is the charge
            whole += "\n-- debt\n" + std::string(source.debt);
        }
        whole += "\n-- refund\n" + std::string(source.refund);
        if (algorithm == Algorithm::concurrency) {
            whole += "\n-- renew\n" + std::string(source.renew);
        }
        EXPECT_EQ(whole, file_of(name));
    }
    const LuaFrame one = lua_one_check();
    EXPECT_EQ(std::string(one.head) + "\n-- rules\n" + std::string(one.tail), file_of("one_check"));
    const LuaFrame batch = lua_batch_of_checks();
    EXPECT_EQ(std::string(batch.head) + "\n-- rules\n" + std::string(batch.tail),
              file_of("batch_of_checks"));
    const LuaFrame settlements = lua_settlements();
    EXPECT_EQ(std::string(settlements.head) + "\n-- rules\n" + std::string(settlements.tail),
              file_of("settlements"));
}

TEST(Script, IsNamedByItsSha1) {
    for (const auto &rules : many_rules()) {
        const Script script = check_script(shape_of(rules));
        EXPECT_EQ(script.sha1.size(), 40u);
        EXPECT_EQ(script.sha1, sha1(script.source));
        const Script run = batch_script(shape_of(rules));
        EXPECT_EQ(run.sha1, sha1(run.source));
        EXPECT_NE(run.sha1, script.sha1);
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

TEST(ScriptShape, KnowsWhetherItHoldsPermits) {
    EXPECT_TRUE(shape_of({Algorithm::gcra, Algorithm::concurrency}).holds_permits());
    EXPECT_FALSE(shape_of({Algorithm::gcra, Algorithm::fixed_window}).holds_permits());
    EXPECT_FALSE(ScriptShape().holds_permits());
}

TEST(ScriptShape, HasACodeOfItsOwn) {
    std::set<uint64_t> codes = {ScriptShape().code()};
    size_t shapes = 1;
    for (const auto &rules : many_rules()) {
        for (const bool dry_run : {false, true}) {
            codes.insert(shape_of(rules, dry_run).code());
            ++shapes;
        }
    }
    EXPECT_EQ(codes.size(), shapes);
    EXPECT_NE(shape_of({Algorithm::gcra, Algorithm::fixed_window}).code(),
              shape_of({Algorithm::fixed_window, Algorithm::gcra}).code());
}

TEST(ScriptShape, HasALetterForEachPart) {
    ScriptShape shape = shape_of({Algorithm::gcra, Algorithm::sliding_log});
    shape.add({.algorithm = Algorithm::concurrency, .dry_run = true});
    ScriptShape::Letters letters;
    EXPECT_EQ(shape.letters(letters), "glC");
}

TEST(ScriptShape, HasTheSameLetterOnlyForAlgorithmsOfOneScript) {
    for (const Algorithm one : all_algorithms) {
        for (const Algorithm other : all_algorithms) {
            ScriptShape::Letters letters;
            const bool is_same_script = lua_source(one).check == lua_source(other).check;
            const std::string letter(shape_of({one}).letters(letters));
            EXPECT_EQ(letter == shape_of({other}).letters(letters), is_same_script);
        }
    }
}

TEST(ScriptLibrary, HasTheScriptsOfTheShapesThatWereAdded) {
    ScriptLibrary library;
    for (const auto &rules : many_rules()) {
        const ScriptShape shape = shape_of(rules);
        EXPECT_EQ(library.check(shape).source, any_rules_script(Blocks::no).source);
        EXPECT_EQ(library.batch(shape), nullptr);
        library.add(shape);
        EXPECT_EQ(library.check(shape).source, check_script(shape).source);
        if (shape.holds_permits()) {
            EXPECT_EQ(library.batch(shape), nullptr); // each request has a permit of its own
        } else {
            EXPECT_EQ(library.batch(shape)->source, batch_script(shape).source);
        }
    }
    EXPECT_EQ(library.release().source, refund_script(Algorithm::concurrency).source);
    EXPECT_EQ(library.renew().source, renew_script().source);
}

TEST(AnyRulesScript, IsOneForAll) {
    const Script script = any_rules_script(Blocks::no);
    EXPECT_TRUE(script.is_of_any_rules);
    EXPECT_FALSE(check_script(shape_of({Algorithm::gcra})).is_of_any_rules);
    EXPECT_EQ(script.sha1, sha1(script.source));
    EXPECT_EQ(count_of("KEYS[", script.source), 0u);
    EXPECT_EQ(count_of("REPLY", script.source), 0u);
    EXPECT_EQ(count_of(", check = function(", script.source), 5u);
}

TEST(Script, HasAsManyArgumentsAsItsFileUses) {
    for (const Algorithm algorithm : all_algorithms) {
        const LuaSource source = lua_source(algorithm);
        const std::string check = std::string(source.check) + std::string(source.charge);
        EXPECT_EQ(numbers_after("ARGV[", check), one_to(argument_count(algorithm)));
        const size_t of_refund =
            algorithm == Algorithm::concurrency
                ? 1 // the permit
                : refund_arguments(quota_of(algorithm), {.receipt = 1}).count();
        EXPECT_EQ(numbers_after("ARGV[", refund_script(algorithm).source), one_to(of_refund));
    }
}

TEST(Script, RepliesAsManyNumbersAsItsVerdictReads) {
    for (const Algorithm algorithm : all_algorithms) {
        EXPECT_EQ(numbers_after("REPLY[", lua_source(algorithm).charge),
                  one_to(rate_limit::reply_length(algorithm)));
    }
}

TEST(RefundScript, TakesOneKeyOrThatOfThePastTooAndRepliesNothing) {
    for (const Algorithm algorithm : all_algorithms) {
        const Script script = refund_script(algorithm);
        EXPECT_EQ(script.sha1, sha1(script.source));
        EXPECT_EQ(numbers_after("KEYS[", script.source),
                  one_to(rate_limit::traits_of(algorithm).family.keeps_past ? 2 : 1));
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
