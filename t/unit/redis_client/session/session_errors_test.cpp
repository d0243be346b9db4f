// Errors that Redis reports, and replies that are none.

#include "session_test.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace redis_client {
namespace {

// Errors that Redis reports

TEST_F(SessionTest, SendsTheWholeScriptWhereRedisDoesNotKnowIt) {
    log_in();
    ask(a_, "a");
    ask(b_, "b");
    EXPECT_EQ(sent(), (Commands{evalsha("a"), evalsha("b")}));
    EXPECT_EQ(receive(noscript), Progress::more);
    EXPECT_EQ(sent(), Commands{eval("a")});
    EXPECT_EQ(a_.results, Results{});

    receive(grant(2)); // in the order of sending: b's is first now
    EXPECT_EQ(b_.results, Results{granted(2)});
    EXPECT_EQ(a_.results, Results{});
    receive(grant(1));
    EXPECT_EQ(a_.results, Results{granted(1)});
    EXPECT_EQ(sent(), Commands{});
}

TEST_F(SessionTest, TellsBothClocksWhereRedisIsInNoWindowOfTheHost) {
    log_in();
    ask(a_, "a");
    sent();
    receive("-ERR user_script:9: no window that the host knows at 1785585600000000 script: 0, on "
            "@user_script:9.\r\n");
    EXPECT_EQ(a_.results, Results{Failure::reply});
    EXPECT_EQ(session_->counters().check_failures, 1u);
    EXPECT_EQ(session_->problem().cause, Problem::Cause::clocks);
    const std::string_view said = session_->problem().redis_said;
    EXPECT_EQ(said, "2026-08-01T12:00:00Z, that of this host says 1970-01-01T00:00:00Z");
}

TEST_F(SessionTest, SendsTheWholeScriptOnce) {
    log_in();
    ask(a_, "a");
    sent();
    receive(noscript);
    EXPECT_EQ(sent(), Commands{eval("a")});
    EXPECT_EQ(receive(noscript), Progress::more);
    EXPECT_EQ(a_.results, Results{Failure::reply});
    EXPECT_EQ(sent(), Commands{});

    ask(b_, "b"); // by name again, also in the same memory
    EXPECT_EQ(sent(), Commands{evalsha("b")});
    receive(grant(2));
    EXPECT_EQ(b_.results, Results{granted(2)});
}

TEST_F(SessionTest, SendsNoScriptForNobody) {
    log_in();
    session_->forget(*ask(a_, "a"), now_);
    ask(b_, "b");
    session_->expire(now_ + 100ms);
    sent();
    receive(std::string(noscript) + std::string(noscript));
    EXPECT_EQ(sent(), Commands{});
    EXPECT_EQ(a_.results, Results{});
    EXPECT_EQ(b_.results, Results{Failure::timeout});
}

TEST_F(SessionTest, KeepsTheDeadlineWhileItSendsTheWholeScript) {
    log_in();
    ask(a_, "a");
    now_ += 90ms;
    receive(noscript);
    EXPECT_EQ(session_->next_expiry(), Time{1100});
    session_->expire(Time{1100});
    EXPECT_EQ(a_.results, Results{Failure::timeout});
    EXPECT_EQ(session_->next_expiry(), now_ + 1000ms); // of the EVAL
    receive(grant(1));
}

TEST_F(SessionTest, FailsOneCheckOnAnErrorReply) {
    log_in();
    for (const std::string_view error :
         {"WRONGTYPE Operation against a key holding the wrong kind of value",
          "LOADING Redis is loading the dataset in memory", "BUSY Redis is busy", "OOM command",
          "NOPERM", "noscript", "E", ""}) {
        Listener a, b;
        ask(a, "a");
        ask(b, "b");
        sent();
        EXPECT_EQ(receive("-" + std::string(error) + "\r\n"), Progress::more);
        EXPECT_EQ(a.results, Results{Failure::reply}) << error;
        EXPECT_EQ(session_->problem().redis_said, error);
        EXPECT_FALSE(session_->problem().what.empty());
        EXPECT_TRUE(session_->is_ready());
        receive(grant(2));
        EXPECT_EQ(b.results, Results{granted(2)});
        EXPECT_EQ(sent(), Commands{});
    }
}

TEST_F(SessionTest, LeavesARedisThatBecameAReplica) {
    for (const std::string_view error :
         {"READONLY You can't write against a read only replica.",
          "ERR Error running script (call to f_1): @user_script:9: -READONLY You can't write"}) {
        log_in();
        Listener a, b;
        ask(a, "a");
        ask(b, "b");
        EXPECT_EQ(receive("-" + std::string(error) + "\r\n"), Progress::broken);
        EXPECT_EQ(a.results, Results{Failure::reply});
        EXPECT_EQ(session_->problem().redis_said, error);
        session_->disconnected(Lost::unreachable, now_);
        EXPECT_EQ(b.results, Results{Failure::connect});
    }
}

TEST_F(SessionTest, LogsInAnewWhereRedisDoesNotKnowIt) {
    log_in();
    ask(a_, "a");
    EXPECT_EQ(receive("-NOAUTH Authentication required.\r\n"), Progress::broken);
    EXPECT_EQ(a_.results, Results{Failure::reply});
    session_->disconnected(Lost::unreachable, now_);
    log_in();
}

TEST_F(SessionTest, KeepsTheWordsOfAProblemWhateverComesNext) {
    log_in();
    ask(a_, "a");
    ask(b_, "b");
    receive("-WRONGTYPE a list is no string\r\n" + std::string(noscript));
    EXPECT_EQ(session_->problem().redis_said, "WRONGTYPE a list is no string");
    receive(grant(1));
    EXPECT_EQ(session_->problem().redis_said, "WRONGTYPE a list is no string");
}

// Replies that are none

TEST_F(SessionTest, BreaksOnAReplyThatIsNoVerdict) {
    const std::vector<std::string> replies = {
        "+OK\r\n",
        "$2\r\nOK\r\n",
        "$-1\r\n",
        ":0\r\n",
        bulk_string(""),
        bulk_string(packed({0, 1, 2, 3})),
        bulk_string(packed({0, 1, 2, 3, 4, 5})),
        bulk_string(packed({0, 1, 2, 3, 4}) + "x"),
        bulk_string(std::string(1000, '\0')),
        bulk_string(packed({-1, 0, 0, 0, 0})),
        bulk_string(packed({INT64_MAX, 0, 0, 0, 0})),
        "*1\r\n:0\r\n",
        "HTTP/1.1 200 OK\r\n",
        "*4294967295\r\n",
    };
    for (const std::string &reply : replies) {
        Listener a, b, abandoned;
        log_in();
        ask(a, "a");
        ask(b, "b");
        session_->forget(*ask(abandoned, "c"), now_);
        EXPECT_EQ(receive(reply + grant(7)), Progress::broken) << reply;
        EXPECT_FALSE(session_->problem().what.empty());
        EXPECT_EQ(a.results, Results{});
        session_->disconnected(Lost::in_use, now_);
        EXPECT_EQ(a.results, Results{Failure::connect}) << reply;
        EXPECT_EQ(b.results, Results{Failure::connect}) << reply;
        EXPECT_EQ(abandoned.results, Results{});
    }
}

TEST_F(SessionTest, FailsOneCheckByNumbersThatNoStateLeadsTo) {
    log_in();
    for (const std::string &reply :
         {answer({100, 0, 0, 0}), answer({0, -1, 0, 0}), answer({0, 0, -1, 0}),
          answer({0, 0, 0, -1}), answer({INT64_MIN, 0, 0, 0})}) {
        Listener a, b;
        ask(a, "a");
        ask(b, "b");
        sent();
        EXPECT_EQ(receive(reply + grant(7)), Progress::more);
        EXPECT_EQ(a.results, Results{Failure::reply});
        EXPECT_EQ(b.results, Results{granted(7)});
    }
    EXPECT_EQ(session_->counters().check_failures, 5u);
    EXPECT_TRUE(session_->is_ready());
}

TEST_F(SessionTest, BreaksOnAWrongReplyToNobodyToo) {
    log_in();
    session_->forget(*ask(a_, "a"), now_);
    EXPECT_EQ(receive("+OK\r\n"), Progress::broken);
    session_->disconnected(Lost::in_use, now_);
}

TEST_F(SessionTest, BreaksOnAReplyThatNothingAskedFor) {
    for (const std::string &reply :
         {grant(1), std::string("-ERR idle\r\n"), std::string("+OK\r\n"), std::string(noscript)}) {
        log_in();
        ask(a_, "a");
        EXPECT_EQ(receive(grant(1)), Progress::more);
        EXPECT_EQ(receive(reply), Progress::broken) << reply;
        EXPECT_FALSE(session_->problem().what.empty());
        session_->disconnected(Lost::in_use, now_);
        EXPECT_EQ(a_.results, Results{granted(1)});
        a_.results.clear();
        sent();
    }
}

TEST_F(SessionTest, BreaksOnOneReplyTooMany) {
    log_in();
    ask(a_, "a");
    EXPECT_EQ(receive(grant(1) + grant(2)), Progress::broken);
    EXPECT_EQ(a_.results, Results{granted(1)});
}

TEST_F(SessionTest, BreaksOnAReplyBehindTheLogin) {
    ask(a_, "a"); // sent only when the login's last reply is read
    session_->connected();
    EXPECT_EQ(receive(std::string(loaded) + grant(1)), Progress::broken);
    session_->disconnected(Lost::unreachable, now_);
    EXPECT_EQ(a_.results, Results{Failure::connect});
}

TEST_F(SessionTest, BreaksOnAReplyBehindTheLoginWhereNobodyWaits) {
    session_->connected();
    EXPECT_EQ(receive(std::string(loaded) + grant(1)), Progress::broken);
}

} // namespace
} // namespace redis_client
