#include "redis_client/script/commands.hpp"

#include "redis_client/script/arguments.hpp"
#include "unit/redis_client/different_bytes.hpp"
#include "unit/redis_client/wire.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

namespace redis_client {
namespace {

using namespace std::chrono_literals;
using rate_limit::Algorithm;

const Script script("return 1\n");

class CommandsTest : public testing::Test {
  protected:
    Charge charge_of(Algorithm algorithm, std::string_view redis_key) {
        Charge charge;
        charge.quota = {.algorithm = algorithm, .window = 60s, .limit = 100, .cost = 2};
        charge.redis_key = redis_key;
        charge.arguments = &arguments_.emplace_back(check_arguments(charge.quota, false));
        if (algorithm == Algorithm::concurrency) {
            charge.permit = permits_.make(redis_key, 2, 60s);
        }
        return charge;
    }

    WireCommand sent() {
        const Commands commands = parse_commands(out_.bytes());
        out_.clear();
        EXPECT_EQ(commands.size(), 1u);
        return commands.empty() ? WireCommand{} : commands.front();
    }

    ObjectPool<Permit> pool_;
    Permits permits_{pool_, different_bytes};
    std::deque<WireWords> arguments_;
    ByteQueue out_;
};

TEST_F(CommandsTest, BatchEndsWithTheUnitsThatEachCheckWantsToLease) {
    std::vector<Charge> charges[2];
    Command checks[2];
    for (size_t i = 0; i < 2; ++i) {
        charges[i] = {charge_of(Algorithm::fixed_window, "a"),
                      charge_of(Algorithm::sliding_window, "b"),
                      charge_of(Algorithm::sliding_log, "c")};
        charges[i][0].may_lease = charges[i][2].may_lease = true;
        charges[i][0].wanted = 7 + i;
        charges[i][2].wanted = 40 + i;
        checks[i].charges = charges[i];
    }
    checks[0].next_in_batch = &checks[1];
    EXPECT_TRUE(write_checks(out_, script, Sending::by_name, checks[0], any_time));
    const WireCommand command = sent();
    EXPECT_EQ(WireCommand(command.end() - 4, command.end()), (WireCommand{"7", "40", "8", "41"}));
    EXPECT_EQ(command.size(), 3 + 6 + 5 + 4 + 4 + 4u);
}

TEST_F(CommandsTest, CheckHasAllKeysAndThenAllArguments) {
    std::vector<Charge> charges = {charge_of(Algorithm::fixed_window, "a"),
                                   charge_of(Algorithm::concurrency, "b"),
                                   charge_of(Algorithm::sliding_window, "c")};
    WireCommand expected = {"EVALSHA", script.sha1, "3", "a", "b", "c"};
    const WireCommand arguments = {"100",
                                   "2",
                                   "60000000",
                                   "65001",
                                   "first", // of a; those of b:
                                   "100",
                                   "2",
                                   "60000000",
                                   "65001",
                                   std::string(charges[1].permit->name), // of c:
                                   "100",
                                   "2",
                                   "60000000",
                                   "125001"};
    expected.insert(expected.end(), arguments.begin(), arguments.end());
    Command check;
    check.charges = charges;
    EXPECT_TRUE(write_checks(out_, script, Sending::by_name, check, any_time));
    EXPECT_EQ(sent(), expected);

    expected[0] = "EVAL";
    expected[1] = script.source;
    EXPECT_TRUE(write_checks(out_, script, Sending::in_full, check, any_time));
    EXPECT_EQ(sent(), expected);
}

TEST_F(CommandsTest, RunHasTheKeysOfAllChecksAndTheArgumentsOfOne) {
    std::vector<Charge> charges[] = {
        {charge_of(Algorithm::fixed_window, "a1"), charge_of(Algorithm::sliding_window, "b1")},
        {charge_of(Algorithm::fixed_window, "a2"), charge_of(Algorithm::sliding_window, "b2")},
        {charge_of(Algorithm::fixed_window, "a3"), charge_of(Algorithm::sliding_window, "b3")},
    };
    Command checks[3];
    for (size_t i = 0; i < 3; ++i) {
        checks[i].charges = charges[i];
        checks[i].next_in_batch = i < 2 ? &checks[i + 1] : nullptr;
    }
    EXPECT_TRUE(write_checks(out_, script, Sending::by_name, checks[0], any_time));
    EXPECT_EQ(sent(),
              (WireCommand{"EVALSHA", script.sha1, "6", "a1", "b1", "a2", "b2", "a3", "b3", "100",
                           "2", "60000000", "65001", "first", "100", "2", "60000000", "125001"}));
}

TEST_F(CommandsTest, ReleaseNamesTheSlot) {
    const Permit &permit = *permits_.make("a", 3, 60s);
    EXPECT_TRUE(write_release(out_, script, Sending::by_name, permit));
    EXPECT_EQ(sent(), (WireCommand{"EVALSHA", script.sha1, "1", "a", std::string(permit.name)}));
    EXPECT_TRUE(write_release(out_, script, Sending::in_full, permit));
    EXPECT_EQ(sent(), (WireCommand{"EVAL", script.source, "1", "a", std::string(permit.name)}));
}

TEST_F(CommandsTest, RenewalHasThreeArgumentsForEachSlot) {
    Permit *const first = permits_.make("a", 1, 60s);
    Permit *const second = permits_.make("b", 1, 500ms);
    Permit *const permits[] = {first, second};
    EXPECT_TRUE(write_renewal(out_, script, permits));
    EXPECT_EQ(sent(),
              (WireCommand{"EVAL", script.source, "2", "a", "b", "60000000", "65001",
                           std::string(first->name), "500000", "5501", std::string(second->name)}));
}

TEST_F(CommandsTest, WriteNothingWithoutMemory) {
    const std::string key = "a";
    Charge charge = charge_of(Algorithm::concurrency, key);
    Permit *permit = charge.permit;
    // refused before a byte of it is read
    charge.redis_key = permit->redis_key = std::string_view(key.data(), SIZE_MAX / 2);
    write_command(out_, {"PING"});
    Command check;
    check.charges = {&charge, 1};
    EXPECT_FALSE(write_checks(out_, script, Sending::by_name, check, any_time));
    EXPECT_FALSE(write_release(out_, script, Sending::by_name, *permit));
    EXPECT_FALSE(write_renewal(out_, script, {&permit, 1}));
    EXPECT_EQ(sent(), WireCommand{"PING"});
}

} // namespace
} // namespace redis_client
