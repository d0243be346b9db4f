// Checks whose requests are gone, and which are charged and counted all the same.

#include "session_test.hpp"

#include <string>
#include <vector>

namespace redis_client {
namespace {

class SessionAbandonedTest : public SessionTest {
  protected:
    static std::vector<Asked> permit_asked() {
        return {
            {.quota = quota_of(Algorithm::concurrency), .redis_key = "rl:{z:a}:concurrency:60000"}};
    }

    Command *ask_and_send(const std::vector<Asked> &all) {
        Command *check = ask(a_, all);
        EXPECT_EQ(sent().size(), 1u);
        return check;
    }
};

TEST_F(SessionAbandonedTest, GetTheVerdict) {
    log_in();
    session_->abandon(*ask_and_send({asked("a")}), now_);
    receive(grant(7));
    EXPECT_EQ(a_.results, Results{granted(7)});
    EXPECT_TRUE(a_.charges()[0].is_charged);
}

TEST_F(SessionAbandonedTest, HearOnceThatThereIsNone) {
    log_in();
    session_->abandon(*ask_and_send({asked("a")}), now_);
    session_->disconnected(Lost::in_use, now_);
    EXPECT_EQ(a_.results, Results{Failure::connect});
}

TEST_F(SessionAbandonedTest, WaitNoLongerThanOthers) {
    start(with_timeout(100ms));
    log_in();
    session_->abandon(*ask_and_send({asked("a")}), now_);
    now_ += 100ms;
    EXPECT_TRUE(session_->has_waiting());
    EXPECT_FALSE(session_->expire(now_));
    EXPECT_EQ(a_.results, Results{Failure::timeout});
    receive(grant(7));
    EXPECT_EQ(a_.results.size(), 1u);
}

TEST_F(SessionAbandonedTest, GetTheVerdictOfWhatWasNotSentYet) {
    log_in();
    session_->abandon(*ask_in_turn(a_, {asked("a")}), now_);
    EXPECT_EQ(sent(), Commands{evalsha("a")});
    receive(grant(7));
    EXPECT_EQ(a_.results, Results{granted(7)});
    EXPECT_TRUE(a_.charges()[0].is_charged);
}

TEST_F(SessionAbandonedTest, GetTheVerdictOfWhatWaitsForAConnection) {
    session_->abandon(*ask(a_, {asked("a")}), now_);
    log_in();
    EXPECT_EQ(sent(), Commands{evalsha("a")});
    receive(grant(7));
    EXPECT_EQ(a_.results, Results{granted(7)});
}

TEST_F(SessionAbandonedTest, HearThatNoConnectionCameInTime) {
    session_->abandon(*ask(a_, {asked("a")}), now_);
    session_->expire(now_ + 100ms);
    EXPECT_EQ(a_.results, Results{Failure::timeout});
}

TEST_F(SessionAbandonedTest, GetNoSlots) {
    log_in();
    session_->abandon(*ask_and_send(permit_asked()), now_);
    EXPECT_EQ(sent().size(), 1u) << "the release";
    receive(answer({99}));
    EXPECT_TRUE(a_.charges()[0].is_charged);
    EXPECT_EQ(a_.charges()[0].permit, nullptr);
    receive("$-1\r\n");
}

TEST_F(SessionAbandonedTest, GiveSlotsBackThatAreAskedForLater) {
    log_in();
    session_->abandon(*ask_in_turn(a_, permit_asked()), now_);
    const Commands check = sent();
    ASSERT_EQ(check.size(), 1u);
    receive(answer({99}));
    EXPECT_TRUE(a_.charges()[0].is_charged);
    EXPECT_EQ(a_.charges()[0].permit, nullptr);
    const Commands release = sent();
    ASSERT_EQ(release.size(), 1u);
    EXPECT_EQ(release[0].back(), check[0].back()) << "the permit's name";
    receive("$-1\r\n");
}

TEST_F(SessionAbandonedTest, HaveNoSlotToGiveBackWhereItIsDenied) {
    log_in();
    session_->abandon(*ask_in_turn(a_, permit_asked()), now_);
    sent();
    receive(answer({-1}));
    EXPECT_EQ(a_.charges()[0].permit, nullptr);
    EXPECT_TRUE(sent().empty());
}

TEST_F(SessionAbandonedTest, SendTheScript) {
    log_in();
    session_->abandon(*ask_and_send({asked("a")}), now_);
    receive(noscript);
    EXPECT_EQ(sent(), Commands{eval("a")});
    receive(grant(7));
    EXPECT_EQ(a_.results, Results{granted(7)});
}

TEST_F(SessionAbandonedTest, SendNoScriptWhereTheSlotWasReleased) {
    start([] {
        SessionSettings settings = default_settings();
        settings.shapes = {shape_of(Algorithm::concurrency)};
        return settings;
    }());
    log_in();
    session_->abandon(*ask_and_send(permit_asked()), now_);
    EXPECT_EQ(sent().size(), 1u) << "the release";
    receive(std::string(noscript) + "$-1\r\n");
    EXPECT_TRUE(sent().empty());
    EXPECT_EQ(a_.results, Results{Failure::reply});
    EXPECT_EQ(session_->counters().failures, 0u) << "for Redis would have run it";
}

TEST_F(SessionAbandonedTest, GoAgainWithTheRestOfTheirRun) {
    log_in();
    const WireWords arguments = check_arguments(quota_of(Algorithm::sliding_log), false);
    std::vector<Asked> one = {asked("a")};
    one[0].arguments = &arguments;
    Command *check = ask_in_turn(a_, one);
    one[0].redis_key = asked("c").redis_key;
    ask_in_turn(c_, one);
    EXPECT_EQ(sent().size(), 1u);
    session_->abandon(*check, now_);
    receive(noscript);
    const Commands again = sent();
    ASSERT_EQ(again.size(), 1u);
    EXPECT_EQ(again[0][0], "EVAL");
    receive(bulk_string(packed({time_of_redis, 6, 0, 0, 0, time_of_redis, 7, 0, 0, 0})));
    EXPECT_EQ(a_.results, Results{granted(6)});
    EXPECT_EQ(c_.results, Results{granted(7)});
}

} // namespace
} // namespace redis_client
