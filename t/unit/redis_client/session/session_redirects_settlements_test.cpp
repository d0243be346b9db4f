// Settlements whose keys are at another node.

#include "session_redirects_test.hpp"

namespace redis_client {
namespace {

using rate_limit::RuleCounter;

class SettlementRedirectsTest : public SessionRedirectsTest {
  protected:
    void settle(std::string_view key) {
        Charge charge;
        charge.quota = quota_of(Algorithm::fixed_window);
        charge.redis_key = key;
        old_().settle({.kind = SettlementKind::debt,
                       .charge = charge,
                       .aligned = false,
                       .counters = &counters_});
    }
    uint64_t count(RuleCounter result) const { return counters_.read().of(result); }

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
