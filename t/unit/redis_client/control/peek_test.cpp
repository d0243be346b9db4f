#include "redis_client/control/peek.hpp"

#include "redis_client/script/answer.hpp"
#include "redis_client/script/script.hpp"
#include "unit/redis_client/wire.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace redis_client {
namespace {

using namespace std::chrono_literals;
using rate_limit::Algorithm;
using rate_limit::Decision;
using rate_limit::Quota;
using rate_limit::Verdict;

constexpr int64_t now = 1'700'000'000'000'000;
const Quota window_of_100 = {.algorithm = Algorithm::fixed_window, .window = 60s, .limit = 100};

TEST(Peek, IsTheScriptOfACheckThatIsToldThatAnotherRuleDenies) {
    for (const Algorithm algorithm : rate_limit::all_algorithms) {
        ScriptShape shape;
        shape.add({.algorithm = algorithm});
        std::string check = check_script(shape).source;
        const std::string before = "local granted = true\n";
        ASSERT_NE(check.find(before), std::string::npos);
        check.replace(check.find(before), before.size(), "local granted = false\n");
        EXPECT_EQ(peek_script({.algorithm = algorithm}).source, check);
    }
}

TEST(Peek, IsOneCommandInFull) {
    ByteQueue out;
    ASSERT_TRUE(write_peek(out, window_of_100, true, "rl:{z:k}:fixed_window:60000", Blocks::no,
                           std::chrono::microseconds{0}));
    const Commands commands = parse_commands(out.bytes());
    const std::vector<std::string> expected = {
        "EVAL",     peek_script({.algorithm = Algorithm::fixed_window}).source,
        "1",        "rl:{z:k}:fixed_window:60000",
        "100",      "1",
        "60000000", "65001",
        "aligned"};
    ASSERT_EQ(commands.size(), 1u);
    EXPECT_EQ(commands[0], expected);
}

TEST(Peek, TellsWhatIsLeftBeforeACharge) {
    // The script replies with what a charge would leave.
    const auto granted = read_peek_answer(packed({now, 39, 7'000'000}), window_of_100, Blocks::no);
    ASSERT_TRUE(granted);
    EXPECT_EQ(granted->decision, Decision::granted);
    EXPECT_EQ(granted->remaining, 40u);
    EXPECT_EQ(granted->reset, 7s);
    const auto denied = read_peek_answer(packed({now, -1, 7'000'000}), window_of_100, Blocks::no);
    ASSERT_TRUE(denied);
    EXPECT_EQ(denied->decision, Decision::denied);
    EXPECT_EQ(denied->remaining, 0u);
    EXPECT_EQ(denied->retry_after, 7s);
}

TEST(Peek, RefusesAnswersOfNoState) {
    const std::vector<std::string> wrong = {
        "",
        packed({now}),
        packed({now, 39}),
        packed({now, 39, 7'000'000, 0}),
        packed({now, 39, 7'000'000}) + "x",
        packed({now, 100, 7'000'000}), // more than there is
        packed({now, 39, -1}),
        packed({now, INT64_MAX, 7'000'000}),
    };
    for (const std::string &answer : wrong) {
        EXPECT_FALSE(read_peek_answer(answer, window_of_100, Blocks::no)) << answer.size();
    }
}

} // namespace
} // namespace redis_client
