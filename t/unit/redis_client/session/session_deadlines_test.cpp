// Checks that no reply comes to in time, and connections that are silent.

#include "session_test.hpp"

#include <optional>

namespace redis_client {
namespace {

TEST_F(SessionTest, FailsACheckAtItsDeadline) {
    log_in();
    ask(a_, "a");
    now_ += 40ms;
    ask(b_, "b");
    EXPECT_EQ(session_->next_expiry(), Time{1100});

    EXPECT_FALSE(session_->expire(Time{1099}));
    EXPECT_EQ(a_.results, Results{});
    EXPECT_FALSE(session_->expire(Time{1100}));
    EXPECT_EQ(a_.results, Results{Failure::timeout});
    EXPECT_EQ(b_.results, Results{});
    EXPECT_EQ(session_->next_expiry(), Time{1140});
    session_->expire(Time{1140});
    EXPECT_EQ(b_.results, Results{Failure::timeout});

    receive(grant(1) + grant(2));
    EXPECT_EQ(session_->next_expiry(), std::nullopt);
}

TEST_F(SessionTest, FailsACheckThatWaitsForAConnectionAtItsDeadline) {
    ask(a_, "a");
    EXPECT_EQ(session_->next_expiry(), Time{1100});
    EXPECT_FALSE(session_->expire(Time{1100}));
    EXPECT_EQ(a_.results, Results{Failure::timeout});
    EXPECT_EQ(session_->pending(), 0u);
    log_in();
    EXPECT_EQ(sent(), Commands{});
}

TEST_F(SessionTest, CountsTheDeadlineFromAsking) {
    ask(a_, "a");
    now_ += 60ms;
    log_in();
    EXPECT_EQ(session_->next_expiry(), Time{1100});
    EXPECT_EQ(sent(), Commands{evalsha("a")});
    receive(grant(1));
    EXPECT_FALSE(session_->expire(Time{2000}));
    EXPECT_EQ(a_.results, Results{granted(1)});
}

TEST_F(SessionTest, GivesALateReplyToNobody) {
    log_in();
    ask(a_, "a");
    now_ += 100ms;
    session_->expire(now_);
    EXPECT_EQ(a_.results, Results{Failure::timeout});
    EXPECT_EQ(session_->pending(), 1u);

    ask(b_, "b");
    EXPECT_EQ(receive(grant(1)), Progress::more);
    EXPECT_EQ(b_.results, Results{});
    receive(grant(2));
    EXPECT_EQ(b_.results, Results{granted(2)});
    EXPECT_EQ(a_.results, Results{Failure::timeout});
}

TEST_F(SessionTest, GivesALateErrorToNobody) {
    log_in();
    ask(a_, "a");
    session_->expire(now_ + 100ms);
    ask(b_, "b");
    EXPECT_EQ(receive("-BUSY Redis is busy\r\n" + grant(2)), Progress::more);
    EXPECT_EQ(a_.results, Results{Failure::timeout});
    EXPECT_EQ(b_.results, Results{granted(2)});
}

TEST_F(SessionTest, CompletesOnceWhereReplyAndDeadlineMeet) {
    log_in();
    ask(a_, "a");
    now_ += 100ms;
    receive(grant(1));
    session_->expire(now_);
    EXPECT_EQ(a_.results, Results{granted(1)});
}

TEST_F(SessionTest, GivesUpAConnectionThatIsSilentForASecond) {
    log_in();
    ask(a_, "a");
    session_->expire(now_ + 100ms);
    EXPECT_EQ(session_->next_expiry(), now_ + 1000ms);
    EXPECT_FALSE(session_->expire(now_ + 999ms));
    EXPECT_TRUE(session_->expire(now_ + 1000ms));
    receive(grant(1));
    EXPECT_FALSE(session_->expire(now_ + 1000ms));
}

TEST_F(SessionTest, CountsSilenceFromSendingTheOldestCommand) {
    start(with_timeout(5s));
    ask(a_, "a");
    now_ += 3s;
    log_in();
    now_ += 1500ms;
    ask(b_, "b");
    receive(grant(1));
    EXPECT_FALSE(session_->expire(now_ + 4999ms));
    EXPECT_EQ(b_.results, Results{});
    EXPECT_TRUE(session_->expire(now_ + 5000ms));
    EXPECT_EQ(b_.results, Results{Failure::timeout});
    receive(grant(2));
}

TEST_F(SessionTest, IsPatientForAsLongAsItsChecks) {
    start(with_timeout(3s));
    ask(a_, "a"); // on the wire 1 s after asking
    now_ += 1s;
    log_in();
    EXPECT_EQ(session_->next_expiry(), Time{4000});
    EXPECT_FALSE(session_->expire(Time{3999}));
    EXPECT_EQ(a_.results, Results{});
    EXPECT_FALSE(session_->expire(Time{4000}));
    EXPECT_EQ(a_.results, Results{Failure::timeout});
    EXPECT_EQ(session_->next_expiry(), Time{5000});
    EXPECT_FALSE(session_->expire(Time{4999}));
    EXPECT_TRUE(session_->expire(Time{5000}));
    session_->disconnected(Lost::unreachable, now_);
}

TEST_F(SessionTest, IsNotSilentWithNothingOnTheWire) {
    EXPECT_EQ(session_->next_expiry(), std::nullopt);
    log_in();
    EXPECT_EQ(session_->next_expiry(), std::nullopt);
    EXPECT_FALSE(session_->expire(now_ + 1h));
}

} // namespace
} // namespace redis_client
