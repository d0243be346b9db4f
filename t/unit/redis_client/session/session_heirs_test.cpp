// Checks whose requests are gone, and which are charged and counted all the same.

#include "session_test.hpp"

#include <string>
#include <vector>

namespace redis_client {
namespace {

class SessionHeirsTest : public SessionTest {
  protected:
    /// b gets what a asked for.
    void hand_over(Command &check) {
        session_->hand_over(check, b_.copy_charges(a_.charges()), b_, now_);
        a_ = {}; // a request's memory goes
    }

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

TEST_F(SessionHeirsTest, GetTheVerdictOfWhatWasNotSentYet) {
    log_in();
    hand_over(*ask_in_turn(a_, {asked("a")}));
    EXPECT_EQ(sent(), Commands{evalsha("a")});
    receive(grant(7));
    EXPECT_EQ(b_.results, Results{granted(7)});
    EXPECT_TRUE(b_.charges()[0].is_charged);
}

TEST_F(SessionHeirsTest, GetTheVerdictOfWhatWaitsForAConnection) {
    hand_over(*ask(a_, {asked("a")}));
    log_in();
    EXPECT_EQ(sent(), Commands{evalsha("a")});
    receive(grant(7));
    EXPECT_EQ(b_.results, Results{granted(7)});
}

TEST_F(SessionHeirsTest, HearThatNoConnectionCameInTime) {
    hand_over(*ask(a_, {asked("a")}));
    session_->expire(now_ + 100ms);
    EXPECT_EQ(b_.results, Results{Failure::timeout});
}

TEST_F(SessionHeirsTest, GetNoSlots) {
    log_in();
    hand_over(*ask_and_send(permit_asked()));
    EXPECT_EQ(sent().size(), 1u) << "the release";
    receive(answer({99}));
    EXPECT_TRUE(b_.charges()[0].is_charged);
    EXPECT_EQ(b_.charges()[0].permit, nullptr);
    receive("$-1\r\n");
}

TEST_F(SessionHeirsTest, GiveSlotsBackThatAreAskedForLater) {
    log_in();
    hand_over(*ask_in_turn(a_, permit_asked()));
    const Commands check = sent();
    ASSERT_EQ(check.size(), 1u);
    receive(answer({99}));
    EXPECT_TRUE(b_.charges()[0].is_charged);
    EXPECT_EQ(b_.charges()[0].permit, nullptr);
    const Commands release = sent();
    ASSERT_EQ(release.size(), 1u);
    EXPECT_EQ(release[0].back(), check[0].back()) << "the permit's name";
    receive("$-1\r\n");
}

TEST_F(SessionHeirsTest, HaveNoSlotToGiveBackWhereItIsDenied) {
    log_in();
    hand_over(*ask_in_turn(a_, permit_asked()));
    sent();
    receive(answer({-1}));
    EXPECT_EQ(b_.charges()[0].permit, nullptr);
    EXPECT_TRUE(sent().empty());
}

TEST_F(SessionHeirsTest, SendTheScript) {
    log_in();
    hand_over(*ask_and_send({asked("a")}));
    receive(noscript);
    EXPECT_EQ(sent(), Commands{eval("a")});
    receive(grant(7));
    EXPECT_EQ(b_.results, Results{granted(7)});
}

TEST_F(SessionHeirsTest, SendNoScriptWhereTheSlotWasReleased) {
    start([] {
        SessionSettings settings = default_settings();
        settings.shapes = {shape_of(Algorithm::concurrency)};
        return settings;
    }());
    log_in();
    hand_over(*ask_and_send(permit_asked()));
    EXPECT_EQ(sent().size(), 1u) << "the release";
    receive(std::string(noscript) + "$-1\r\n");
    EXPECT_TRUE(sent().empty());
    EXPECT_EQ(b_.results, Results{Failure::reply});
    EXPECT_EQ(session_->counters().failures, 0u) << "for Redis would have run it";
}

TEST_F(SessionHeirsTest, GoAgainWithTheRestOfTheirRun) {
    log_in();
    const WireWords arguments = check_arguments(quota_of(Algorithm::sliding_log), false);
    std::vector<Asked> one = {asked("a")};
    one[0].arguments = &arguments;
    Command *check = ask_in_turn(a_, one);
    one[0].redis_key = asked("c").redis_key;
    ask_in_turn(c_, one);
    EXPECT_EQ(sent().size(), 1u);
    hand_over(*check);
    receive(noscript);
    const Commands again = sent();
    ASSERT_EQ(again.size(), 1u);
    EXPECT_EQ(again[0][0], "EVAL");
    receive(bulk_string(packed({time_of_redis, 6, 0, 0, 0, time_of_redis, 7, 0, 0, 0})));
    EXPECT_EQ(b_.results, Results{granted(6)});
    EXPECT_EQ(c_.results, Results{granted(7)});
}

} // namespace
} // namespace redis_client
