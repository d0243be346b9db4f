// Permits that Redis may have granted to a check that got no verdict, and permits without memory.

#include "session_permits_test.hpp"

#include "unit/allocations.hpp"

#include <string>

namespace redis_client {
namespace {

// Checks that end otherwise

TEST_F(SessionPermitsTest, OfATimedOutCheckAreReleased) {
    log_in();
    const std::string name = ask_for_permit(a_);
    session_->expire(now_ + 100ms);
    EXPECT_EQ(a_.results, Results{Failure::timeout});
    EXPECT_EQ(a_.charges()[0].permit, nullptr);
    EXPECT_EQ(sent(), Commands{release_of(name)});
    receive(grants + std::string(done)); // late, but then it is released
    EXPECT_FALSE(session_->has_background_commands());
}

TEST_F(SessionPermitsTest, OfACheckThatTimedOutBeforeItWasSentNeedNoRelease) {
    ask_for_permit(a_);
    session_->expire(now_ + 100ms);
    EXPECT_EQ(a_.results, Results{Failure::timeout});
    EXPECT_FALSE(session_->has_background_commands());
    log_in();
    EXPECT_EQ(sent(), Commands{});
}

TEST_F(SessionPermitsTest, OfAnAbandonedCheckAreReleased) {
    log_in();
    const std::string name = ask_for_permit(a_);
    session_->forget(*check_, now_);
    a_.charges().clear();
    a_.charges().shrink_to_fit();
    EXPECT_EQ(sent(), Commands{release_of(name)});
    receive(std::string(noscript) + std::string(done)); // the check has done nothing, for nobody
    EXPECT_EQ(sent(), Commands{});
    EXPECT_EQ(a_.results, Results{});
}

TEST_F(SessionPermitsTest, OfACheckAbandonedBeforeItWasSentNeedNoRelease) {
    ask_for_permit(a_);
    session_->forget(*check_, now_);
    EXPECT_FALSE(session_->has_background_commands());
    log_in();
    EXPECT_EQ(sent(), Commands{});
}

TEST_F(SessionPermitsTest, OfACheckThatFailedAreReleased) {
    log_in();
    const std::string name = ask_for_permit(a_);
    EXPECT_EQ(receive("-OOM command not allowed\r\n"), Progress::more); // perhaps after its ZADD
    EXPECT_EQ(a_.results, Results{Failure::reply});
    EXPECT_EQ(a_.charges()[0].permit, nullptr);
    EXPECT_EQ(sent(), Commands{release_of(name)});
    receive(done);
}

// Else each check that a Redis refuses, which has no disk left, would stay for a window, and be
// told of again and again.
TEST_F(SessionPermitsTest, OfACheckThatFailedAreReleasedOnce) {
    log_in();
    const std::string name = ask_for_permit(a_);
    receive("-MISCONF Errors writing to the disk\r\n");
    EXPECT_EQ(sent(), Commands{release_of(name)});
    receive("-MISCONF Errors writing to the disk\r\n");
    EXPECT_FALSE(session_->has_background_commands());
    wait_until(now_ + 10s);
    EXPECT_EQ(sent(), Commands{});
}

// Redis may well take what else there is to release.
TEST_F(SessionPermitsTest, OfACheckThatFailedDoNotKeepAWorkerFromWaitingForOthers) {
    log_in();
    take_permit(a_);
    ask_for_permit(b_);
    receive("-MISCONF Errors writing to the disk\r\n");
    release(a_);
    receive("-MISCONF Errors writing to the disk\r\n"); // to the release of b's
    EXPECT_TRUE(session_->has_background_commands());
    EXPECT_TRUE(session_->takes_background_commands());
    receive(done);
    EXPECT_FALSE(session_->has_background_commands());
}

TEST_F(SessionPermitsTest, OfACheckThatFailedAreLeftWhereTheConnectionBreaks) {
    log_in();
    ask_for_permit(a_);
    EXPECT_EQ(receive("-READONLY You can't write against a read only replica.\r\n"),
              Progress::broken);
    session_->disconnected(Lost::unreachable, now_);
    EXPECT_FALSE(session_->has_background_commands());
}

TEST_F(SessionPermitsTest, OfACheckOnALostConnectionAreReleasedOnTheNext) {
    log_in();
    const std::string name = ask_for_permit(a_);
    session_->disconnected(Lost::in_use, now_);
    EXPECT_EQ(a_.results, Results{Failure::connect});
    EXPECT_EQ(a_.charges()[0].permit, nullptr);
    EXPECT_TRUE(session_->has_background_commands());
    log_in();
    EXPECT_EQ(sent(), Commands{release_of(name)});
    receive(done);
}

TEST_F(SessionPermitsTest, OfACheckWithAnImpossibleReplyAreReleased) {
    log_in();
    const std::string name = ask_for_permit(a_);
    EXPECT_EQ(receive(answer({100})), Progress::more);
    EXPECT_EQ(a_.results, Results{Failure::reply});
    EXPECT_EQ(a_.charges()[0].permit, nullptr);
    EXPECT_EQ(sent(), Commands{release_of(name)});
    receive(done);
}

TEST_F(SessionPermitsTest, OfACheckThatNeverGotAConnectionNeedNoRelease) {
    ask_for_permit(a_);
    session_->disconnected(Lost::unreachable, now_);
    EXPECT_EQ(a_.results, Results{Failure::connect});
    EXPECT_EQ(a_.charges()[0].permit, nullptr);
    EXPECT_FALSE(session_->has_background_commands());
}

TEST_F(SessionPermitsTest, OfACheckWhoseFateIsUnknownAreForgottenAWindowAfterItsEnd) {
    log_in();
    ask_for_permit(a_);
    now_ += 50ms;
    session_->disconnected(Lost::unreachable, now_);
    wait_until(Time{61'049});
    EXPECT_TRUE(session_->has_background_commands());
    wait_until(Time{71'050});
    EXPECT_FALSE(session_->has_background_commands());
}

// Without memory

TEST_F(SessionPermitsTest, AreNotAskedForWithoutMemoryForThem) {
    log_in();
    take_permit(a_);
    release(a_);
    receive(done);
    sent();
    const NoNewObjects refused;                // but there is a call to spare, and a permit
    ask(b_, {permit_asked(), permit_asked()}); // which takes two
    EXPECT_EQ(b_.charges()[0].permit, nullptr);
    EXPECT_EQ(b_.charges()[1].permit, nullptr);
    EXPECT_EQ(b_.results, Results{});
    EXPECT_EQ(session_->problem().what, "out of memory");
    EXPECT_EQ(sent(), Commands{});
    EXPECT_FALSE(session_->has_background_commands());
    EXPECT_EQ(session_->pending(), 0u);

    take_permit(c_); // the one there is
    release(c_);
    receive(done);
}

TEST_F(SessionPermitsTest, AreNotAskedForWithoutMemoryForACall) {
    log_in();
    const NoNewObjects refused;
    EXPECT_EQ(refusal(), Failure::overload);
    EXPECT_EQ(ask(a_, {permit_asked()}), nullptr);
    EXPECT_EQ(a_.charges()[0].permit, nullptr);
    EXPECT_EQ(session_->counters().failures, 2u);
}

TEST_F(SessionPermitsTest, AreReleasedLaterWithoutMemoryForACall) {
    log_in();
    const std::string name = take_permit(a_);
    Command *in_use = ask(b_, "b"); // the only call there is
    sent();
    {
        const NoNewObjects refused;
        release(a_);
        EXPECT_EQ(sent(), Commands{});
        EXPECT_TRUE(session_->has_background_commands());
    }
    session_->forget(*in_use, now_);
    receive(grant(1));
    wait_until(now_ + 10s);
    EXPECT_EQ(sent(), Commands{release_of(name)});
    receive(done);
}

TEST_F(SessionPermitsTest, AreRenewedSoonWithoutMemoryForACall) {
    log_in();
    const std::string name = take_permit(a_);
    now_ += 20s;
    ask(b_, "b");
    sent();
    {
        const NoNewObjects refused;
        session_->expire(now_);
        EXPECT_EQ(sent(), Commands{});
    }
    receive(grant(1));
    wait_until(now_ + 1s);
    EXPECT_EQ(sent(), Commands{renewal_of({name})});
    receive(done);
    release(a_);
    receive(done);
}

TEST_F(SessionPermitsTest, SurviveThatThereIsNoMemoryForCommands) {
#if !defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "it takes AddressSanitizer to refuse memory early";
#endif
    log_in();
    const std::string held = take_permit(a_);
    const std::string given_back = take_permit(b_);
    ask(c_, "c");
    receive(grant(9));
    now_ += 19s;
    session_->expire(now_);
    sent();

    fill_output();
    release(b_);
    session_->refund(c_.charges(), now_);
    ask(c_, {permit_asked()});
    EXPECT_EQ(c_.results.back(), Result(Failure::overload));
    EXPECT_EQ(c_.charges()[0].permit, nullptr);
    now_ += 10s;
    session_->expire(now_); // to renew what is held
    EXPECT_EQ(session_->pending(), 0u);
    EXPECT_TRUE(session_->has_background_commands());

    sent(); // there is room again
    EXPECT_EQ(sent().size(), 1u) << "the refund";
    receive("$1\r\n1\r\n");
    wait_until(now_ + 1s);
    EXPECT_EQ(sent(), (Commands{release_of(given_back), renewal_of({held})}));
    receive(std::string(done) + std::string(done));
    release(a_);
    receive(done);
}

TEST_F(SessionPermitsTest, OfAWaitingCheckWithoutMemoryToSendItNeedNoRelease) {
#if !defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "it takes AddressSanitizer to refuse memory early";
#endif
    ask_for_permit(a_);
    session_->connected();
    fill_output();
    session_->received(std::string(loaded) + "+sha1\r\n", now_);
    session_->flush(now_);
    EXPECT_EQ(a_.results, Results{Failure::overload});
    EXPECT_EQ(a_.charges()[0].permit, nullptr);
    EXPECT_FALSE(session_->has_background_commands());
}

} // namespace
} // namespace redis_client
