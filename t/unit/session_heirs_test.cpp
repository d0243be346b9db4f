// Checks that are handed over to somebody who only wants to know what became of them.

#include "session_test.hpp"

namespace redis_client {
namespace {

class SessionHeirsTest : public SessionTest {
  protected:
    /// b gets what a asked for.
    void hand_over(Call &check) {
        b_.all_charges.push_back(a_.charges());
        session_->hand_over(check, b_.charges(), b_, now_);
        a_.charges().clear(); // a request's memory goes
    }

    Call *ask_and_send(const std::vector<Asked> &all) {
        Call *check = ask(a_, all);
        EXPECT_EQ(sent().size(), 1u);
        return check;
    }
};

TEST_F(SessionHeirsTest, GetTheVerdict) {
    log_in();
    hand_over(*ask_and_send({asked("a")}));
    receive(grant(7));
    EXPECT_EQ(b_.results, Results{granted(7)});
    EXPECT_TRUE(b_.charges()[0].is_charged);
    EXPECT_TRUE(a_.results.empty());
}

TEST_F(SessionHeirsTest, HearOnceThatThereIsNone) {
    log_in();
    hand_over(*ask_and_send({asked("a")}));
    session_->disconnected(Lost::in_use, now_);
    EXPECT_EQ(b_.results, Results{Failure::connect});
}

TEST_F(SessionHeirsTest, WaitNoLongerThanOthers) {
    start(with_timeout(100ms));
    log_in();
    hand_over(*ask_and_send({asked("a")}));
    now_ += 100ms;
    EXPECT_TRUE(session_->has_waiting());
    EXPECT_FALSE(session_->expire(now_));
    EXPECT_EQ(b_.results, Results{Failure::timeout});
    receive(grant(7));
    EXPECT_EQ(b_.results.size(), 1u);
}

TEST_F(SessionHeirsTest, GetNoSlots) {
    log_in();
    Call *check = ask_and_send(
        {{.quota = quota_of(Algorithm::concurrency), .redis_key = "rl:{z:a}:concurrency:60000"}});
    hand_over(*check);
    EXPECT_EQ(sent().size(), 1u) << "the release";
    receive(answer({99}));
    EXPECT_TRUE(b_.charges()[0].is_charged);
    EXPECT_EQ(b_.charges()[0].slot, nullptr);
    receive("$-1\r\n");
}

TEST_F(SessionHeirsTest, SendNoScript) {
    log_in();
    hand_over(*ask_and_send({asked("a")}));
    receive(noscript);
    EXPECT_TRUE(sent().empty());
    EXPECT_EQ(b_.results, Results{Failure::reply});
    EXPECT_EQ(session_->counters().failures, 0u) << "for Redis would have run it";
}

TEST_F(SessionHeirsTest, LeaveTheRestOfTheirRunAlone) {
    log_in();
    const WireWords arguments = check_arguments(quota_of(Algorithm::sliding_log), false);
    std::vector<Asked> one = {asked("a")};
    one[0].arguments = &arguments;
    Call *check = ask_in_turn(a_, one);
    one[0].redis_key = asked("c").redis_key;
    ask_in_turn(c_, one);
    EXPECT_EQ(sent().size(), 1u);
    hand_over(*check);
    receive(noscript);
    EXPECT_EQ(b_.results, Results{Failure::reply});
    const Commands again = sent();
    ASSERT_EQ(again.size(), 1u);
    EXPECT_EQ(again[0][0], "EVAL");
    receive(grant(7));
    EXPECT_EQ(c_.results, Results{granted(7)});
}

} // namespace
} // namespace redis_client
