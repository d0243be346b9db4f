// Settlements whose keys are at another node.

#include "session_redirects_test.hpp"

namespace redis_client {
namespace {

using rate_limit::RuleCounter;

class SettlementRedirectsTest : public SessionRedirectsTest {
  protected:
    void settle(std::string_view key) {
        settle(SettlementKind::debt, Algorithm::fixed_window, key);
    }
    void give_back(std::string_view key) { settle(SettlementKind::refund, Algorithm::gcra, key); }
    uint64_t count(RuleCounter result) const { return counters_.read().of(result); }

  private:
    void settle(SettlementKind kind, Algorithm algorithm, std::string_view key) {
        Charge charge;
        charge.quota = quota_of(algorithm);
        charge.redis_key = key;
        old_().settle({.kind = kind, .charge = charge, .aligned = false, .counters = &counters_});
    }

    rate_limit::RuleCounters counters_{};
};

TEST_F(SettlementRedirectsTest, GoToTheNodeThatHasTheKeys) {
    settle("a");
    settle("b");
    const Commands commands = sent(old_());
    EXPECT_EQ(receive(old_(), moved_to_new), Progress::more);
    EXPECT_FALSE(old_().has_background_commands());
    EXPECT_EQ(sent(new_()), commands);
    EXPECT_EQ(receive(new_(), "$2\r\n11\r\n"), Progress::more);
    EXPECT_EQ(count(RuleCounter::settlements_charged), 2u);
}

TEST_F(SettlementRedirectsTest, AskTheNodeToWhichTheKeysMove) {
    settle("a");
    Commands commands = sent(old_());
    EXPECT_EQ(receive(old_(), ask_new), Progress::more);
    commands.insert(commands.begin(), asking);
    EXPECT_EQ(sent(new_()), commands);
    EXPECT_EQ(receive(new_(), "+OK\r\n$1\r\n1\r\n"), Progress::more);
    EXPECT_EQ(count(RuleCounter::settlements_charged), 1u);
}

TEST_F(SettlementRedirectsTest, GoAloneWhileTheirKeysMove) {
    settle("a");
    settle("b");
    sent(old_());
    EXPECT_EQ(receive(old_(), tryagain), Progress::more);
    EXPECT_EQ(sent(old_()).size(), 2u);
    EXPECT_EQ(receive(old_(), "$1\r\n1\r\n$1\r\n1\r\n"), Progress::more);
    EXPECT_EQ(count(RuleCounter::settlements_charged), 2u);
}

// The key of a bucket's past is mostly not there, which Redis refuses while the hash slot moves.
TEST_F(SettlementRedirectsTest, OfABucketDoWithTheKeyOfItsCounterWhileItMoves) {
    give_back("a");
    Commands commands = sent(old_());
    EXPECT_EQ((WireCommand{commands[0][3], commands[0][4]}), (WireCommand{"a", "a#past"}));
    EXPECT_EQ(receive(old_(), tryagain), Progress::more);
    commands[0][4] = "a";
    EXPECT_EQ(sent(old_()), commands);
    EXPECT_EQ(receive(old_(), ask_new), Progress::more);
    commands.insert(commands.begin(), asking);
    EXPECT_EQ(sent(new_()), commands);
    EXPECT_EQ(receive(new_(), "+OK\r\n$1\r\n1\r\n"), Progress::more);
    EXPECT_EQ(count(RuleCounter::settlements_returned), 1u);

    give_back("a");
    sent(old_());
    EXPECT_EQ(receive(old_(), tryagain), Progress::more);
    sent(old_());
    EXPECT_EQ(receive(old_(), tryagain), Progress::more);
    EXPECT_EQ(sent(old_()), Commands{});
    EXPECT_EQ(count(RuleCounter::settlements_lost), 1u);
}

TEST_F(SettlementRedirectsTest, WaitForANodeThatCannotBeReached) {
    settle("a");
    const Commands commands = sent(old_());
    new_().disconnected(Lost::unreachable, now_);
    EXPECT_EQ(receive(old_(), moved_to_new), Progress::more);
    EXPECT_EQ(count(RuleCounter::settlements_lost), 0u);
    log_in(new_());
    EXPECT_EQ(sent(new_()), commands);
    EXPECT_EQ(receive(new_(), "$1\r\n1\r\n"), Progress::more);
    EXPECT_EQ(count(RuleCounter::settlements_charged), 1u);
}

} // namespace
} // namespace redis_client
