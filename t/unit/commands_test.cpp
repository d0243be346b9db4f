#include "redis_client/commands.hpp"

#include "redis_client/arguments.hpp"
#include "wire.hpp"

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
            charge.slot = slots_.make(redis_key, 2, 60s);
        }
        return charge;
    }

    Command sent() {
        const Commands commands = parse_commands(out_.bytes());
        out_.clear();
        EXPECT_EQ(commands.size(), 1u);
        return commands.empty() ? Command{} : commands.front();
    }

    ObjectPool<Slot> pool_;
    Slots slots_{pool_};
    std::deque<WireWords> arguments_;
    ByteQueue out_;
};

TEST_F(CommandsTest, CheckHasAllKeysAndThenAllArguments) {
    std::vector<Charge> charges = {charge_of(Algorithm::fixed_window, "a"),
                                   charge_of(Algorithm::concurrency, "b"),
                                   charge_of(Algorithm::sliding_window, "c")};
    Command expected = {"EVALSHA", script.sha1, "3", "a", "b", "c"};
    const Command arguments = {"100",
                               "2",
                               "60000000",
                               "65001",
                               "first", // of a; those of b:
                               "100",
                               "2",
                               "60000000",
                               "65001",
                               std::string(charges[1].slot->name), // of c:
                               "100",
                               "2",
                               "60000000",
                               "125001"};
    expected.insert(expected.end(), arguments.begin(), arguments.end());
    Call check;
    check.charges = charges;
    EXPECT_TRUE(write_checks(out_, script, Sending::by_name, check));
    EXPECT_EQ(sent(), expected);

    expected[0] = "EVAL";
    expected[1] = script.source;
    EXPECT_TRUE(write_checks(out_, script, Sending::in_full, check));
    EXPECT_EQ(sent(), expected);
}

TEST_F(CommandsTest, RunHasTheKeysOfAllChecksAndTheArgumentsOfOne) {
    std::vector<Charge> charges[] = {
        {charge_of(Algorithm::fixed_window, "a1"), charge_of(Algorithm::sliding_window, "b1")},
        {charge_of(Algorithm::fixed_window, "a2"), charge_of(Algorithm::sliding_window, "b2")},
        {charge_of(Algorithm::fixed_window, "a3"), charge_of(Algorithm::sliding_window, "b3")},
    };
    Call checks[3];
    for (size_t i = 0; i < 3; ++i) {
        checks[i].charges = charges[i];
        checks[i].next_in_run = i < 2 ? &checks[i + 1] : nullptr;
    }
    EXPECT_TRUE(write_checks(out_, script, Sending::by_name, checks[0]));
    EXPECT_EQ(sent(),
              (Command{"EVALSHA", script.sha1, "6", "a1", "b1", "a2", "b2", "a3", "b3", "100", "2",
                       "60000000", "65001", "first", "100", "2", "60000000", "125001"}));
}

TEST_F(CommandsTest, ReleaseNamesTheSlot) {
    const Slot &slot = *slots_.make("a", 3, 60s);
    EXPECT_TRUE(write_release(out_, script, Sending::by_name, slot));
    EXPECT_EQ(sent(), (Command{"EVALSHA", script.sha1, "1", "a", std::string(slot.name)}));
    EXPECT_TRUE(write_release(out_, script, Sending::in_full, slot));
    EXPECT_EQ(sent(), (Command{"EVAL", script.source, "1", "a", std::string(slot.name)}));
}

TEST_F(CommandsTest, RefundTellsWhatWasChargedInFull) {
    Charge charge = charge_of(Algorithm::fixed_window, "a");
    charge.receipt = 1'700'000'007'000'000;
    EXPECT_TRUE(write_refund(out_, script, charge));
    EXPECT_EQ(sent(), (Command{"EVAL", script.source, "1", "a", "2", "1700000007000000"}));
}

TEST_F(CommandsTest, RenewalHasThreeArgumentsForEachSlot) {
    Slot *const first = slots_.make("a", 1, 60s);
    Slot *const second = slots_.make("b", 1, 500ms);
    Slot *const slots[] = {first, second};
    EXPECT_TRUE(write_renewal(out_, script, slots));
    EXPECT_EQ(sent(),
              (Command{"EVAL", script.source, "2", "a", "b", "60000000", "65001",
                       std::string(first->name), "500000", "5501", std::string(second->name)}));
}

TEST_F(CommandsTest, WriteNothingWithoutMemory) {
    const std::string key = "a";
    Charge charge = charge_of(Algorithm::concurrency, key);
    Slot *slot = charge.slot;
    // refused before a byte of it is read
    charge.redis_key = slot->redis_key = std::string_view(key.data(), SIZE_MAX / 2);
    write_command(out_, {"PING"});
    Call check;
    check.charges = {&charge, 1};
    EXPECT_FALSE(write_checks(out_, script, Sending::by_name, check));
    EXPECT_FALSE(write_release(out_, script, Sending::by_name, *slot));
    EXPECT_FALSE(write_refund(out_, script, charge));
    EXPECT_FALSE(write_renewal(out_, script, {&slot, 1}));
    EXPECT_EQ(sent(), Command{"PING"});
}

} // namespace
} // namespace redis_client
