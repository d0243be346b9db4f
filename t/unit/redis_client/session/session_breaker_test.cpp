// After so many failed checks in a row a session asks nothing, but for one check now and then.

#include "session_test.hpp"

#include <gtest/gtest.h>

namespace redis_client {
namespace {

constexpr Time longest_cooldown{1200};

class SessionBreakerTest : public SessionTest {
  protected:
    void SetUp() override {
        SessionSettings settings = default_settings();
        settings.breaker = {.failures = 3, .cooldown = 1000ms};
        settings.max_pending = 5;
        start(settings);
        log_in();
    }

    /// Checks that Redis does not answer in time.
    void let_time_out(size_t checks) {
        for (size_t i = 0; i < checks; ++i) {
            ask(a_, std::to_string(i));
        }
        now_ += 100ms;
        session_->expire(now_);
        EXPECT_EQ(a_.results, Results(checks, Failure::timeout));
        a_.results.clear();
        sent();
        unanswered_ += checks;
    }

    void TearDown() override {
        session_->disconnected(Lost::in_use, now_);
        SessionTest::TearDown();
    }

    void expect_to_grant(const std::string &key) {
        ask(b_, key);
        answer_late();
        receive(grant(7));
        EXPECT_EQ(b_.results, Results{granted(7)});
        b_.results.clear();
    }

    void answer_late() {
        for (; unanswered_ > 0; --unanswered_) {
            receive(grant(1));
        }
    }

  private:
    size_t unanswered_ = 0;
};

TEST_F(SessionBreakerTest, AsksNothingAfterSoManyFailuresInARow) {
    let_time_out(2);
    expect_to_grant("b");
    let_time_out(2);
    EXPECT_NE(ask(c_, "c"), nullptr);
    now_ += 100ms;
    session_->expire(now_);
    sent();

    const uint64_t failures = session_->counters().failures;
    EXPECT_EQ(refusal(), Failure::breaker);
    EXPECT_EQ(refusal(), Failure::breaker);
    EXPECT_EQ(session_->counters().failures, failures);
    EXPECT_EQ(session_->counters().not_asked, 2u);
    EXPECT_EQ(sent(), Commands{});
}

TEST_F(SessionBreakerTest, LetsOneCheckProbe) {
    let_time_out(3);
    now_ += longest_cooldown;
    ask(b_, "b");
    EXPECT_EQ(sent(), Commands{evalsha("b")});
    EXPECT_EQ(refusal(), Failure::breaker);
    answer_late();
    receive(grant(7));
    EXPECT_EQ(b_.results, Results{granted(7)});
    b_.results.clear();
    expect_to_grant("all");
    expect_to_grant("again");
}

TEST_F(SessionBreakerTest, StaysOpenAfterAProbeThatFails) {
    let_time_out(3);
    now_ += longest_cooldown;
    let_time_out(1);
    EXPECT_EQ(refusal(), Failure::breaker);
}

TEST_F(SessionBreakerTest, ProbesWhenAllLateAnswersAreThere) {
    ask(a_, "a");
    ask(a_, "b");
    ask(a_, "c");
    now_ += 100ms;
    session_->expire(now_);
    receive(grant(1) + grant(1));
    EXPECT_EQ(refusal(), Failure::breaker);
    receive(grant(1));
    expect_to_grant("d");
}

TEST_F(SessionBreakerTest, ClosesByAProbeWhoseClientHasLeft) {
    let_time_out(3);
    now_ += longest_cooldown;
    Command *probe = ask(b_, "b");
    ASSERT_NE(probe, nullptr);
    session_->forget(*probe, now_);
    answer_late();
    receive(grant(7));
    expect_to_grant("b");
}

TEST_F(SessionBreakerTest, CountsErrorsOfRedis) {
    for (int i = 0; i < 3; ++i) {
        ask(a_, "a");
        receive("-OOM command not allowed\r\n");
    }
    EXPECT_EQ(session_->counters().check_failures, 0u);
    EXPECT_EQ(refusal(), Failure::breaker);
}

TEST_F(SessionBreakerTest, TakesNoKeyOfAnotherTypeForAFaultOfRedis) {
    for (const char *error :
         {"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
          "-ERR Error running script (call to f_1): @user_script:5: WRONGTYPE Operation\r\n"}) {
        for (int i = 0; i < 4; ++i) {
            ask(a_, "a");
            receive(error);
            EXPECT_EQ(a_.results.back(), Result(Failure::reply));
        }
    }
    EXPECT_EQ(session_->counters().failures, 8u);
    EXPECT_EQ(session_->counters().check_failures, 8u);
    expect_to_grant("b");
}

TEST_F(SessionBreakerTest, TakesNoHashSlotForAFaultOfRedis) {
    for (const std::string_view error :
         {"MOVED 1 node:2", "ASK 1 node:2", "TRYAGAIN Multiple keys request during rehashing",
          "CROSSSLOT Keys in request don't hash to the same slot",
          "CLUSTERDOWN Hash slot not served"}) {
        const uint64_t check_failures = session_->counters().check_failures;
        for (int i = 0; i < 4; ++i) {
            ask(a_, "a");
            receive("-" + std::string(error) + "\r\n");
            EXPECT_EQ(a_.results.back(), Result(Failure::reply)) << error;
        }
        EXPECT_EQ(session_->problem().what, "a node of a cluster, use mode cluster") << error;
        EXPECT_EQ(session_->problem().redis_said, error);
        EXPECT_EQ(session_->counters().check_failures, check_failures + 4);
        expect_to_grant("b");
    }
}

TEST_F(SessionBreakerTest, AsksNoNodeWhoseClusterIsDown) {
    for (int i = 0; i < 3; ++i) {
        ask(a_, "a");
        receive("-CLUSTERDOWN The cluster is down\r\n");
    }
    EXPECT_EQ(session_->problem().what, "a node of a cluster, use mode cluster");
    EXPECT_EQ(session_->counters().check_failures, 0u);
    EXPECT_EQ(refusal(), Failure::breaker);
}

TEST_F(SessionBreakerTest, TakesNoOverloadForAFaultOfRedis) {
    std::string answers;
    for (int i = 0; i < 5; ++i) {
        ask(a_, "a");
        answers += grant(1);
    }
    for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(refusal(), Failure::overload);
    }
    receive(answers);
    expect_to_grant("b");
}

TEST_F(SessionBreakerTest, ClosesWhenThereIsAConnection) {
    session_->disconnected(Lost::unreachable, now_);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(refusal(), Failure::connect);
    }
    EXPECT_EQ(refusal(), Failure::breaker);
    log_in();
    ask(a_, "a");
    ask(b_, "b");
    receive(grant(1) + grant(7));
    EXPECT_EQ(b_.results, Results{granted(7)});
}

TEST_F(SessionBreakerTest, TakesAKeyOfAnotherTypeForALifeSign) {
    let_time_out(3);
    now_ += longest_cooldown;
    ask(b_, "b");
    answer_late();
    receive("-WRONGTYPE Operation against a key holding the wrong kind of value\r\n");
    b_.results.clear();
    expect_to_grant("b");
}

} // namespace
} // namespace redis_client
