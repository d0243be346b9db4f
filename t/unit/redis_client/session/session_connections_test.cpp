// Connections that come and go, and what becomes of the checks.

#include "session_test.hpp"

#include <optional>

namespace redis_client {
namespace {

TEST_F(SessionTest, WaitsForTheNextConnectionWhereOneThatWorkedIsLost) {
    log_in();
    ask(a_, "a");
    ask(b_, "b");
    session_->forget(*ask(c_, "c"), now_);
    session_->disconnected(Lost::in_use, now_);
    EXPECT_EQ(a_.results, Results{Failure::connect});
    EXPECT_EQ(b_.results, Results{Failure::connect});
    EXPECT_EQ(c_.results, Results{});
    EXPECT_EQ(session_->pending(), 0u);
    EXPECT_EQ(sent(), Commands{}); // what the socket had not taken yet

    Listener later;
    ask(later, "later");
    log_in();
    EXPECT_EQ(sent(), Commands{evalsha("later")});
    receive(grant(5));
    EXPECT_EQ(later.results, Results{granted(5)});
    EXPECT_EQ(a_.results.size(), 1u);
}

TEST_F(SessionTest, KeepsWhatWasNotSentOverALostConnection) {
    ask(a_, "a");
    session_->connected();
    ask(b_, "b");
    session_->disconnected(Lost::in_use, now_);
    EXPECT_EQ(a_.results, Results{});
    EXPECT_EQ(session_->pending(), 2u);
    EXPECT_EQ(session_->next_expiry(), now_ + 100ms);
    log_in();
    EXPECT_EQ(sent(), (Commands{evalsha("a"), evalsha("b")}));
    receive(grant(1) + grant(2));
    EXPECT_EQ(a_.results, Results{granted(1)});
    EXPECT_EQ(b_.results, Results{granted(2)});
}

TEST_F(SessionTest, FailsAllWhereRedisIsUnreachable) {
    ask(a_, "a");
    session_->forget(*ask(c_, "c"), now_);
    ask(b_, "b");
    session_->disconnected(Lost::unreachable, now_);
    EXPECT_EQ(a_.results, Results{Failure::connect});
    EXPECT_EQ(b_.results, Results{Failure::connect});
    EXPECT_EQ(c_.results, Results{});
    EXPECT_FALSE(session_->has_waiting());
}

TEST_F(SessionTest, FailsWhatWasSentAndWhatWasNotAlike) {
    log_in();
    ask(a_, "a");
    session_->expire(now_ + 100ms);
    ask(b_, "b");
    session_->disconnected(Lost::unreachable, now_);
    EXPECT_EQ(a_.results, Results{Failure::timeout});
    EXPECT_EQ(b_.results, Results{Failure::connect});
}

TEST_F(SessionTest, RefusesAtOnceUntilRedisIsReachedAgain) {
    session_->disconnected(Lost::unreachable, now_);
    EXPECT_EQ(refusal(), Failure::connect);
    EXPECT_EQ(refusal(), Failure::connect);
    EXPECT_EQ(session_->pending(), 0u);
    EXPECT_EQ(session_->next_expiry(), std::nullopt);
    log_in();
    ask(a_, "a");
    EXPECT_EQ(sent(), Commands{evalsha("a")});
    receive(grant(1));
    EXPECT_EQ(a_.results, Results{granted(1)});
}

TEST_F(SessionTest, TakesNoReplyForACheckThatIsNotOnTheWire) {
    log_in();
    ask(a_, "a");
    session_->output().consume(10); // the socket took no more
    EXPECT_EQ(session_->received(grant(1), now_), Progress::broken);
    session_->disconnected(Lost::unreachable, now_);
    EXPECT_EQ(a_.results, Results{Failure::connect});
}

TEST_F(SessionTest, BeginsANewConnectionWithCleanBytes) {
    log_in();
    ask(a_, "a");
    session_->output().consume(10); // half a command left
    receive("$40\r\nhalf");         // half a reply came
    session_->disconnected(Lost::in_use, now_);
    EXPECT_EQ(a_.results, Results{Failure::connect});
    log_in();
    ask(b_, "b");
    EXPECT_EQ(sent(), Commands{evalsha("b")});
    receive(grant(2));
    EXPECT_EQ(b_.results, Results{granted(2)});
}

TEST_F(SessionTest, NeverSendsAWholeScriptOnAnotherConnection) {
    log_in();
    ask(a_, "a");
    receive(noscript);
    session_->disconnected(Lost::in_use, now_);
    EXPECT_EQ(a_.results, Results{Failure::connect});
    log_in();
    EXPECT_EQ(sent(), Commands{});
}

} // namespace
} // namespace redis_client
