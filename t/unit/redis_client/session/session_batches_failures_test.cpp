// Script runs that Redis does not know, cannot take or answers with a failure.

#include "session_batches_test.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace redis_client {
namespace {

// NOSCRIPT

TEST_F(SessionBatchesTest, ComeAlongWithTheirScriptOnceWhereRedisDoesNotKnowIt) {
    ask_three();
    sent();
    EXPECT_EQ(receive(noscript), Progress::more);
    EXPECT_EQ(sent(), Commands{run_of_logs({"a", "b", "c"}, true)});
    EXPECT_EQ(session_->counters().failures, 0u);
    receive(bulk_string(with_left(1) + with_left(2) + with_left(3)));
    EXPECT_EQ(a_.results, Results{granted(1)});
    EXPECT_EQ(c_.results, Results{granted(3)});

    ask_three(); // by name again, in the same memory
    EXPECT_EQ(sent(), Commands{run_of_logs({"a", "b", "c"})});
    receive(noscript);
    receive(noscript);
    EXPECT_EQ(sent().size(), 1u);
    for (const Listener *listener : {&a_, &b_, &c_}) {
        EXPECT_EQ(listener->results.back(), Result(Failure::reply));
        EXPECT_EQ(listener->results.size(), 2u);
    }
}

TEST_F(SessionBatchesTest, ComeAlongWithTheirScriptForThoseWhoStillWait) {
    ask_three();
    sent();
    session_->forget(*checks_[1], now_);
    receive(noscript);
    EXPECT_EQ(session_->pending(), 2u);
    EXPECT_EQ(sent(), Commands{run_of_logs({"a", "c"}, true)});
    receive(bulk_string(with_left(1) + with_left(3)));
    EXPECT_EQ(a_.results, Results{granted(1)});
    EXPECT_EQ(b_.results, Results{});
    EXPECT_EQ(c_.results, Results{granted(3)});
    EXPECT_EQ(session_->counters().verdicts, 2u);
    EXPECT_EQ(session_->counters().failures, 0u);
}

TEST_F(SessionBatchesTest, BecomeACheckWhereOneAloneStillWaits) {
    ask_three();
    sent();
    session_->forget(*checks_[0], now_);
    session_->forget(*checks_[2], now_);
    receive(noscript);
    EXPECT_EQ(sent(), Commands{eval("b")});
    receive(grant(2));
    EXPECT_EQ(b_.results, Results{granted(2)});
}

TEST_F(SessionBatchesTest, SendNoScriptForNobody) {
    ask_three();
    sent();
    session_->forget(*checks_[1], now_);
    session_->expire(now_ + 100ms);
    EXPECT_EQ(receive(noscript), Progress::more);
    EXPECT_EQ(sent(), Commands{});
    EXPECT_EQ(session_->pending(), 0u);
    EXPECT_EQ(session_->counters().failures, 2u) << "those that timed out";
}

// Keys of several permits

constexpr std::string_view cross_permit =
    "-CROSSSLOT Keys in request don't hash to the same permit\r\n";

TEST_F(SessionBatchesTest, ComeApartWhereRedisTakesKeysOfOneSlotOnly) {
    ask_three();
    sent();
    session_->forget(*checks_[1], now_);
    EXPECT_EQ(receive(cross_permit), Progress::more);
    EXPECT_EQ(sent(), (Commands{evalsha("a"), evalsha("c")}));
    receive(grant(1) + grant(3));
    EXPECT_EQ(a_.results, Results{granted(1)});
    EXPECT_EQ(b_.results, Results{});
    EXPECT_EQ(c_.results, Results{granted(3)});
    EXPECT_EQ(session_->counters().verdicts, 2u);
    EXPECT_EQ(session_->counters().failures, 0u);

    ask_log(a_, "a");
    ask_log(c_, "c");
    EXPECT_EQ(sent(), (Commands{evalsha("a"), evalsha("c")}));
    receive(grant(1) + grant(3));

    session_->disconnected(Lost::in_use, now_);
    ask_three(); // by a connection to what may be another Redis
    EXPECT_EQ(sent(), Commands{run_of_logs({"a", "b", "c"})});
    receive(bulk_string(with_left(1) + with_left(2) + with_left(3)));
}

TEST_F(SessionBatchesTest, DoNotComeApartAgainAndAgain) {
    log_in();
    ask_log(a_, "a");
    sent();
    receive(cross_permit); // one check's own keys
    EXPECT_EQ(a_.results, Results{Failure::reply});
    EXPECT_EQ(sent(), Commands{});
}

// Failures

TEST_F(SessionBatchesTest, LetOneCheckFailAlone) {
    const Results fails{Failure::reply};
    for (size_t bad = 0; bad < 3; ++bad) {
        Listener *const listeners[] = {&a_, &b_, &c_};
        ask_three();
        sent();
        std::string answers;
        for (size_t i = 0; i < 3; ++i) {
            answers += i == bad ? failed : with_left(static_cast<int64_t>(i));
        }
        EXPECT_EQ(receive(bulk_string(answers + wrong_type)), Progress::more);
        EXPECT_EQ(session_->problem().redis_said, wrong_type);
        EXPECT_EQ(session_->problem().what, "error reply");
        for (size_t i = 0; i < 3; ++i) {
            EXPECT_EQ(listeners[i]->results, i == bad ? fails : Results{granted(i)});
            EXPECT_EQ(listeners[i]->charges()[0].is_charged, i != bad);
            listeners[i]->results.clear();
        }
        EXPECT_EQ(session_->counters().failures, bad + 1);
        EXPECT_EQ(session_->counters().verdicts, 2 * (bad + 1));
    }
}

TEST_F(SessionBatchesTest, LeaveARedisThatBecameAReplica) {
    for (const std::string said :
         {"READONLY You can't write against a read only replica.",
          "@user_script: 9: -READONLY You can't write against a read only replica."}) {
        Listener later;
        ask_three();
        sent();
        ask_log(later, "later");
        EXPECT_EQ(receive(bulk_string(failed + with_left(2) + failed + said)), Progress::broken);
        EXPECT_EQ(session_->problem().redis_said, said);
        EXPECT_EQ(a_.results.back(), Result(Failure::reply));
        EXPECT_EQ(b_.results.back(), granted(2));
        EXPECT_EQ(c_.results.back(), Result(Failure::reply));
        session_->disconnected(Lost::unreachable, now_);
        EXPECT_EQ(later.results, Results{Failure::connect});
    }
}

TEST_F(SessionBatchesTest, FailEachOnceOnAnError) {
    ask_three();
    sent();
    session_->forget(*checks_[1], now_);
    EXPECT_EQ(receive("-OOM command not allowed\r\n"), Progress::more);
    EXPECT_EQ(a_.results, Results{Failure::reply});
    EXPECT_EQ(b_.results, Results{});
    EXPECT_EQ(c_.results, Results{Failure::reply});
    EXPECT_EQ(session_->problem().redis_said, "OOM command not allowed");
    EXPECT_EQ(session_->pending(), 0u);
    EXPECT_EQ(session_->counters().failures, 3u);
}

TEST_F(SessionBatchesTest, FailEachOnceWhereTheConnectionIsLost) {
    for (const Lost lost : {Lost::in_use, Lost::unreachable}) {
        Listener a, b, later;
        log_in();
        ask_log(a, "a");
        Command *left = ask_log(b, "b");
        sent();
        session_->forget(*left, now_);
        ask_log(later, "later");
        session_->disconnected(lost, now_);
        EXPECT_EQ(a.results, Results{Failure::connect});
        EXPECT_EQ(b.results, Results{});
        if (lost == Lost::in_use) { // what was not sent waits for the next connection
            EXPECT_EQ(later.results, Results{});
            log_in();
            EXPECT_EQ(sent(), Commands{evalsha("later")});
            receive(grant(4));
            EXPECT_EQ(later.results, Results{granted(4)});
        } else {
            EXPECT_EQ(later.results, Results{Failure::connect});
        }
        EXPECT_EQ(session_->pending(), 0u);
    }
}

TEST_F(SessionBatchesTest, KeepTheWordsOfAProblemThoughAnotherScriptIsUnknown) {
    ask_three();
    ask_in_turn(a_, {of_window("a")});
    sent();
    receive(bulk_string(failed + with_left(2) + with_left(3) + wrong_type) + std::string(noscript));
    EXPECT_EQ(session_->problem().redis_said, wrong_type);
    receive(answer({1, 0}));
}

// Replies that are none

TEST_F(SessionBatchesTest, BreakOnAReplyThatIsNotTheirAnswers) {
    const std::string three = with_left(1) + with_left(2) + with_left(3);
    const std::string replies[] = {
        "$-1\r\n",
        ":0\r\n",
        bulk_string(""),
        grant(1),
        bulk_string(three.substr(1)),
        bulk_string(with_left(1) + with_left(2)),
        bulk_string(three + "x"), // though none has failed
        bulk_string(three + with_left(4)),
        bulk_string(with_left(1) + packed({-2, 0, 0, 0, 0}) + with_left(3)),
        bulk_string(with_left(1) + packed({INT64_MAX, 0, 0, 0, 0}) + with_left(3)),
        bulk_string(with_left(1) + failed + with_left(3) + std::string(5000, 'x')),
    };
    for (const std::string &reply : replies) {
        const uint64_t failures = session_->counters().failures;
        ask_three();
        sent();
        EXPECT_EQ(receive(reply), Progress::broken) << reply;
        EXPECT_FALSE(session_->problem().what.empty());
        session_->disconnected(Lost::in_use, now_);
        for (Listener *listener : {&a_, &b_, &c_}) {
            EXPECT_EQ(listener->results, Results{Failure::connect}) << reply;
            EXPECT_FALSE(listener->charges()[0].is_charged) << reply;
            listener->results.clear();
        }
        EXPECT_EQ(session_->counters().failures, failures + 3);
    }
}

TEST_F(SessionBatchesTest, FailOneCheckByNumbersThatAreImpossible) {
    for (const std::string &reply :
         {bulk_string(with_left(1) + with_left(100) + with_left(3)),
          bulk_string(with_left(1) + packed({time_of_redis, 2, -1, 0, 0}) + with_left(3))}) {
        ask_three();
        sent();
        EXPECT_EQ(receive(reply), Progress::more);
        EXPECT_EQ(session_->problem().cause, Problem::Cause::keys);
        EXPECT_EQ(session_->problem().checked, b_.charges()[0].redis_key); // as b_ describes it
        EXPECT_EQ(a_.results, Results{granted(1)});
        EXPECT_EQ(b_.results, Results{Failure::reply});
        EXPECT_FALSE(b_.charges()[0].is_charged);
        EXPECT_EQ(c_.results, Results{granted(3)});
        for (Listener *listener : {&a_, &b_, &c_}) {
            listener->results.clear();
        }
    }
    EXPECT_EQ(session_->counters().check_failures, 2u);
}

TEST_F(SessionBatchesTest, BreakOnAFailureOfACheckAlone) {
    log_in();
    ask_log(a_, "a");
    EXPECT_EQ(receive(bulk_string(failed)), Progress::broken);
    session_->disconnected(Lost::in_use, now_);
    EXPECT_EQ(a_.results, Results{Failure::connect});
}

} // namespace
} // namespace redis_client
