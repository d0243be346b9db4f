#include "session_test.hpp"

#include "allocations.hpp"

#include <string>
#include <utility>
#include <vector>

namespace redis_client {
namespace {

// Login

struct Login {
    std::string username;
    std::string password;
    uint64_t database;
    Commands commands; // before SCRIPT LOAD
};

const std::vector<Login> logins = {
    {"", "", 0, {}},
    {"", "secret", 0, {{"AUTH", "secret"}}},
    {"app", "secret", 0, {{"AUTH", "app", "secret"}}},
    {"app", "", 0, {}},
    {"", "", 15, {{"SELECT", "15"}}},
    {"", "sec ret\r\n", 7, {{"AUTH", "sec ret\r\n"}, {"SELECT", "7"}}},
    {"app", "secret", 7, {{"AUTH", "app", "secret"}, {"SELECT", "7"}}},
};

SessionSettings settings_of(const Login &login) {
    SessionSettings settings = default_settings();
    settings.username = login.username;
    settings.password = login.password;
    settings.database = login.database;
    return settings;
}

TEST_F(SessionTest, LogsInStepByStep) {
    for (const Login &login : logins) {
        start(settings_of(login));
        EXPECT_EQ(sent(), Commands{});
        session_->connected();
        Commands expected = login.commands;
        expected.push_back({"SCRIPT", "LOAD", script().source});
        expected.push_back({"SCRIPT", "LOAD", script_of_runs().source});
        EXPECT_EQ(sent(), expected);

        for (size_t i = 0; i < login.commands.size(); ++i) {
            EXPECT_EQ(receive("+OK\r\n"), Progress::more);
            EXPECT_FALSE(session_->is_ready());
        }
        EXPECT_EQ(receive(bulk_string(script().sha1)), Progress::more);
        EXPECT_EQ(receive(bulk_string(script_of_runs().sha1)), Progress::ready);
        EXPECT_TRUE(session_->is_ready());
        EXPECT_EQ(sent(), Commands{});
    }
}

TEST_F(SessionTest, LogsInOnRepliesCutAnywhere) {
    const std::string replies =
        "+OK\r\n+OK\r\n" + bulk_string(script().sha1) + bulk_string(script_of_runs().sha1);
    for (size_t cut = 0; cut < replies.size(); ++cut) {
        start(settings_of(logins.back()));
        session_->connected();
        EXPECT_EQ(receive(replies.substr(0, cut)), Progress::more);
        EXPECT_EQ(receive(replies.substr(cut)), Progress::ready);
    }
}

TEST_F(SessionTest, StaysOnlyWithAMasterWhereItNeedsOne) {
    SessionSettings settings = default_settings();
    settings.needs_master = true;
    const std::string loaded = bulk_string(script().sha1) + bulk_string(script_of_runs().sha1);
    const auto log_in = [&](const std::string &said) {
        start(settings);
        session_->connected();
        EXPECT_EQ(sent().front(), (Command{"ROLE"}));
        return receive(said + loaded);
    };
    const std::string offset_and_replicas =
        ":3129659\r\n*2\r\n*3\r\n$9\r\n127.0.0.1\r\n$4\r\n9001\r\n$7\r\n3129242\r\n"
        "*3\r\n$9\r\n127.0.0.1\r\n$4\r\n9002\r\n$7\r\n3129543\r\n";
    EXPECT_EQ(log_in("*3\r\n$6\r\nmaster\r\n" + offset_and_replicas), Progress::ready);
    EXPECT_EQ(receive("*1\r\n$6\r\nmaster\r\n"), Progress::broken) << "no other list is taken";

    EXPECT_EQ(log_in("*5\r\n$5\r\nslave\r\n$1\r\na\r\n:1\r\n$4\r\nsync\r\n:1\r\n"),
              Progress::broken);
    EXPECT_EQ(session_->problem().what, "ROLE");
    EXPECT_EQ(session_->problem().redis_said, "slave");
    for (const char *no_role : {"+master\r\n", "$6\r\nmaster\r\n", ":1\r\n", "$-1\r\n", "*0\r\n",
                                "*1\r\n:1\r\n", "*1\r\n*1\r\n$6\r\nmaster\r\n",
                                "*2\r\n:1\r\n$6\r\nmaster\r\n", "-ERR unknown command\r\n"}) {
        EXPECT_EQ(log_in(no_role), Progress::broken) << no_role;
        EXPECT_EQ(session_->problem().what, "ROLE") << no_role;
    }
    EXPECT_EQ(log_in("-NOPERM this user has no permissions\r\n"), Progress::refused);
}

TEST_F(SessionTest, LogsInAgainOnEachConnection) {
    for (int i = 0; i < 3; ++i) {
        log_in();
        session_->disconnected(Lost::in_use, now_);
        EXPECT_FALSE(session_->is_ready());
    }
}

TEST_F(SessionTest, BreaksWhereALoginCommandIsRefused) {
    const std::vector<std::string_view> names = {"AUTH", "SELECT", "SCRIPT LOAD"};
    for (size_t refused = 0; refused < names.size(); ++refused) {
        start(settings_of(logins.back()));
        ask(a_, "a");
        session_->connected();
        sent();
        for (size_t i = 0; i < refused; ++i) {
            EXPECT_EQ(receive("+OK\r\n"), Progress::more);
        }
        EXPECT_EQ(receive("-WRONGPASS invalid pair\r\n"), Progress::refused);
        EXPECT_FALSE(session_->is_ready());
        EXPECT_EQ(session_->problem().what, names[refused]);
        // Of AUTH only the kind of error: the rest may repeat the password.
        EXPECT_EQ(session_->problem().redis_said,
                  names[refused] == "AUTH" ? "WRONGPASS" : "WRONGPASS invalid pair");
        EXPECT_EQ(sent(), Commands{});

        session_->disconnected(Lost::unreachable, now_);
        EXPECT_EQ(a_.results, Results{Failure::connect});
        a_.results.clear();
    }
}

TEST_F(SessionTest, TellsALoginThatIsRefusedForGoodFromOneThatIsNot) {
    const auto progress_of = [&](const std::string &error) {
        start(settings_of(logins.back()));
        session_->connected();
        return receive("-" + error + "\r\n");
    };
    for (const std::string error : {"WRONGPASS invalid username-password pair",
                                    "NOAUTH Authentication required.", "NOPERM no permissions"}) {
        EXPECT_EQ(progress_of(error), Progress::refused) << error;
    }
    for (const std::string error :
         {"LOADING Redis is loading the dataset in memory", "ERR max number of clients reached",
          "ERR WRONGPASS", "NOAUTHORITY", ""}) {
        EXPECT_EQ(progress_of(error), Progress::broken) << error;
    }
}

TEST_F(SessionTest, KnowsThatThereIsNoRoomForItThoughTheErrorComesUnasked) {
    start(settings_of(logins.back()));
    session_->connected();
    EXPECT_EQ(receive("-ERR max number of clients reached\r\n"), Progress::broken);
    EXPECT_EQ(session_->problem().what, "connecting");
    EXPECT_EQ(session_->problem().redis_said, "ERR max number of clients reached");
}

TEST_F(SessionTest, BreaksOnALoginReplyOfTheWrongShape) {
    for (const std::string_view reply : {"$-1\r\n", ":1\r\n", "*4\r\n:0\r\n:1\r\n:2\r\n:3\r\n",
                                         "*1\r\n+OK\r\n", "HTTP/1.1 400 Bad Request\r\n"}) {
        start(default_settings());
        session_->connected();
        EXPECT_EQ(receive(reply), Progress::broken) << reply;
        EXPECT_FALSE(session_->problem().what.empty());
        EXPECT_FALSE(session_->is_ready());
    }
}

TEST_F(SessionTest, ForgetsAProblemOnANewConnection) {
    session_->connected();
    receive("-ERR no\r\n");
    session_->disconnected(Lost::unreachable, now_);
    EXPECT_EQ(session_->problem().what, "SCRIPT LOAD");
    sent();
    log_in();
    EXPECT_EQ(session_->problem().what, "");
    EXPECT_EQ(session_->problem().redis_said, "");
}

// From asking to verdict

TEST_F(SessionTest, SendsNothingBeforeItIsReady) {
    start(settings_of(logins.back()));
    ask(a_, "a");
    EXPECT_EQ(sent(), Commands{});
    session_->connected();
    ask(b_, "b");
    EXPECT_EQ(sent(), (Commands{{"AUTH", "app", "secret"},
                                {"SELECT", "7"},
                                {"SCRIPT", "LOAD", script().source},
                                {"SCRIPT", "LOAD", script_of_runs().source}}));
    receive("+OK\r\n");
    ask(c_, "c");
    receive("+OK\r\n");
    EXPECT_EQ(sent(), Commands{});
    EXPECT_TRUE(session_->has_waiting());

    EXPECT_EQ(receive(loaded), Progress::ready);
    EXPECT_EQ(sent(), (Commands{evalsha("a"), evalsha("b"), evalsha("c")}));
    receive(grant(1) + grant(2) + grant(3));
    EXPECT_EQ(a_.results, Results{granted(1)});
    EXPECT_EQ(b_.results, Results{granted(2)});
    EXPECT_EQ(c_.results, Results{granted(3)});
    EXPECT_FALSE(session_->has_waiting());
}

TEST_F(SessionTest, AsksAtOnceWhenReady) {
    log_in();
    ask(a_, "a");
    EXPECT_EQ(sent(), Commands{evalsha("a")});
    EXPECT_EQ(session_->pending(), 1u);
    EXPECT_EQ(a_.results, Results{});
    EXPECT_EQ(receive(grant(99)), Progress::more);
    EXPECT_EQ(a_.results, Results{granted(99)});
    EXPECT_EQ(sent(), Commands{});
}

TEST_F(SessionTest, TellsTheWholeVerdict) {
    log_in();
    ask(a_, "a");
    receive(answer({-1, 1'250'000, 60'000'000, 1'250'000}));
    EXPECT_EQ(a_.results, Results{(Verdict{.decision = Decision::denied,
                                           .remaining = 0,
                                           .retry_after = 1250ms,
                                           .next_unit = 1250ms,
                                           .reset = 60s})});
}

TEST_F(SessionTest, MatchesRepliesInOrderHoweverTheyAreCut) {
    const std::string replies = grant(1) + grant(2) + grant(3);
    log_in();
    for (size_t piece = 1; piece <= replies.size(); ++piece) {
        Listener a, b, c;
        ask(a, "same");
        ask(b, "same");
        ask(c, "same");
        for (size_t at = 0; at < replies.size(); at += piece) {
            EXPECT_EQ(receive(std::string_view(replies).substr(at, piece)), Progress::more);
        }
        EXPECT_EQ(a.results, Results{granted(1)});
        EXPECT_EQ(b.results, Results{granted(2)});
        EXPECT_EQ(c.results, Results{granted(3)});
    }
}

// Deadlines

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

// Listeners that leave

TEST_F(SessionTest, NeverSendsWhatWasAbandonedBefore) {
    ask(a_, "a");
    Call *left = ask(b_, "b");
    ask(c_, "c");
    session_->abandon(*left, now_);
    EXPECT_EQ(session_->pending(), 2u);
    log_in();
    EXPECT_EQ(sent(), (Commands{evalsha("a"), evalsha("c")}));
    receive(grant(1) + grant(3));
    EXPECT_EQ(a_.results, Results{granted(1)});
    EXPECT_EQ(b_.results, Results{});
    EXPECT_EQ(c_.results, Results{granted(3)});
}

TEST_F(SessionTest, SwallowsTheReplyOfWhatWasAbandonedAfter) {
    log_in();
    ask(a_, "a");
    Call *left = ask(b_, "b");
    ask(c_, "c");
    session_->abandon(*left, now_);
    EXPECT_EQ(session_->pending(), 3u);
    receive(grant(1) + grant(2) + grant(3));
    EXPECT_EQ(a_.results, Results{granted(1)});
    EXPECT_EQ(b_.results, Results{});
    EXPECT_EQ(c_.results, Results{granted(3)});
}

TEST_F(SessionTest, TellsNobodyOfAnAbandonedCheckThatExpiresOrFails) {
    log_in();
    session_->abandon(*ask(a_, "a"), now_);
    session_->expire(now_ + 500ms);
    session_->disconnected(Lost::unreachable, now_);
    EXPECT_EQ(a_.results, Results{});
}

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
    session_->abandon(*ask(a_, "a"), now_);
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
        answer({100, 0, 0, 0}),
        answer({0, -1, 0, 0}),
        answer({0, 0, -1, 0}),
        answer({0, 0, 0, -1}),
        answer({INT64_MIN, 0, 0, 0}),
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
        session_->abandon(*ask(abandoned, "c"), now_);
        EXPECT_EQ(receive(reply + grant(7)), Progress::broken) << reply;
        EXPECT_FALSE(session_->problem().what.empty());
        EXPECT_EQ(a.results, Results{});
        session_->disconnected(Lost::in_use, now_);
        EXPECT_EQ(a.results, Results{Failure::connect}) << reply;
        EXPECT_EQ(b.results, Results{Failure::connect}) << reply;
        EXPECT_EQ(abandoned.results, Results{});
    }
}

TEST_F(SessionTest, BreaksOnAWrongReplyToNobodyToo) {
    log_in();
    session_->abandon(*ask(a_, "a"), now_);
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

// Connections that come and go

TEST_F(SessionTest, WaitsForTheNextConnectionWhereOneThatWorkedIsLost) {
    log_in();
    ask(a_, "a");
    ask(b_, "b");
    session_->abandon(*ask(c_, "c"), now_);
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
    session_->abandon(*ask(c_, "c"), now_);
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

// Bounds

TEST_F(SessionTest, RefusesMoreThanMaxPending) {
    start(with_max_pending(2));
    ask(a_, "a");
    Call *left = ask(b_, "b");
    EXPECT_EQ(refusal(), Failure::overload);
    EXPECT_EQ(session_->pending(), 2u);
    session_->abandon(*left, now_); // not sent yet: room for another
    ask(c_, "c");
    EXPECT_EQ(refusal(), Failure::overload);
    log_in();
    EXPECT_EQ(sent(), (Commands{evalsha("a"), evalsha("c")}));
    EXPECT_EQ(refusal(), Failure::overload);
    receive(grant(1));
    ask(b_, "b");
    EXPECT_EQ(refusal(), Failure::overload);
    receive(grant(3) + grant(2));
    EXPECT_EQ(b_.results, Results{granted(2)});
    EXPECT_EQ(c_.results, Results{granted(3)});
}

TEST_F(SessionTest, CountsTombstonesAsPending) {
    start(with_max_pending(2));
    log_in();
    session_->abandon(*ask(a_, "a"), now_);
    ask(b_, "b");
    session_->expire(now_ + 100ms);
    EXPECT_EQ(session_->pending(), 2u);
    EXPECT_EQ(refusal(), Failure::overload);
    receive(grant(1));
    EXPECT_EQ(session_->pending(), 1u);
    ask(c_, "c");
    receive(grant(2) + grant(3));
    EXPECT_EQ(c_.results, Results{granted(3)});
}

TEST_F(SessionTest, AsksNothingWithoutRoomForOne) {
    start(with_max_pending(0));
    EXPECT_EQ(refusal(), Failure::overload);
    log_in();
    EXPECT_EQ(refusal(), Failure::overload);
}

TEST_F(SessionTest, FailsWhatItHasNoMemoryToSend) {
#if !defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "it takes AddressSanitizer to refuse memory early";
#endif
    start(with_max_pending(SIZE_MAX));
    log_in();
    size_t room = 0;
    for (ask(a_, "a"); a_.results.empty(); ask(a_, "a")) {
        ++room;
    }
    EXPECT_EQ(a_.results, Results{Failure::overload});
    EXPECT_EQ(session_->problem().what, "out of memory");
    EXPECT_EQ(session_->pending(), room);
    EXPECT_EQ(sent().size(), room);
    session_->disconnected(Lost::in_use, now_);
    a_.results.clear();

    start(with_max_pending(SIZE_MAX));
    for (size_t i = 0; i < room + 3; ++i) {
        ask(a_, "a");
    }
    log_in();
    EXPECT_EQ(sent().size(), room);
    EXPECT_EQ(a_.results, Results(3, Failure::overload));
    EXPECT_EQ(session_->problem().what, "out of memory");
    EXPECT_EQ(session_->pending(), room);
    ask(b_, "b"); // the socket took all, so there is room again
    EXPECT_EQ(sent(), Commands{evalsha("b")});
    session_->disconnected(Lost::in_use, now_);
    EXPECT_EQ(b_.results, Results{Failure::connect});
}

// Counters

TEST_F(SessionTest, CountsEachCheckOnce) {
    using Counts = std::pair<uint64_t, uint64_t>; // verdicts and failures
    const auto counts = [&] {
        return Counts(session_->counters().verdicts, session_->counters().failures);
    };
    start(with_max_pending(3));
    EXPECT_EQ(counts(), Counts(0, 0));
    session_->abandon(*ask(a_, "a"), now_); // never sent: nothing came of it
    EXPECT_EQ(counts(), Counts(0, 0));

    log_in();
    ask(a_, "a");
    receive(grant(1));
    EXPECT_EQ(counts(), Counts(1, 0));
    ask(a_, "a");
    receive("-ERR no\r\n");
    EXPECT_EQ(counts(), Counts(1, 1));
    ask(a_, "a");
    receive(noscript);
    EXPECT_EQ(counts(), Counts(1, 1));
    receive(grant(1));
    EXPECT_EQ(counts(), Counts(2, 1));

    // what was abandoned counts by the answer that arrives
    session_->abandon(*ask(a_, "a"), now_);
    EXPECT_EQ(counts(), Counts(2, 1));
    receive(grant(1));
    EXPECT_EQ(counts(), Counts(3, 1));

    // what failed at its deadline does not count again by its late answer, or for want of one
    ask(a_, "a");
    ask(a_, "a");
    ask(a_, "a");
    session_->expire(now_ + 100ms);
    EXPECT_EQ(counts(), Counts(3, 4));
    receive(grant(1));
    receive("-ERR late\r\n");
    EXPECT_EQ(counts(), Counts(3, 4));
    ask(b_, "b");
    session_->abandon(*ask(c_, "c"), now_);
    EXPECT_EQ(refusal(), Failure::overload);
    EXPECT_EQ(counts(), Counts(3, 5));
    session_->disconnected(Lost::unreachable, now_);
    EXPECT_EQ(counts(), Counts(3, 7));
    EXPECT_EQ(refusal(), Failure::connect);
    EXPECT_EQ(counts(), Counts(3, 8));
}

TEST_F(SessionTest, SaysWhyItFailsAtOnceOrAtADeadline) {
    start(with_max_pending(1));
    session_->connected();
    ask(a_, "a");
    session_->expire(now_ + 100ms);
    EXPECT_EQ(session_->problem().what, "no connection in time");

    start(with_max_pending(1));
    log_in();
    ask(a_, "a");
    refusal();
    EXPECT_EQ(session_->problem().what, "too many pending checks");
    session_->expire(now_ + 100ms);
    EXPECT_EQ(session_->problem().what, "no answer in time");
    EXPECT_EQ(session_->problem().redis_said, "");
    receive(grant(1));
}

// Destruction: AddressSanitizer tells of what is leaked or freed twice.

TEST_F(SessionTest, DiesWithChecksInEveryState) {
    for (const bool ready : {false, true}) {
        for (int sent_count = 0; sent_count <= 3; ++sent_count) {
            start(default_settings());
            session_->connected();
            if (ready) {
                receive(loaded);
            }
            for (int i = 0; i < sent_count; ++i) {
                session_->abandon(*ask(a_, "a"), now_);
                ask(a_, "a");
            }
            if (ready) {
                receive(noscript); // to nobody
                if (sent_count > 0) {
                    receive(noscript); // to a check, sent again in full
                }
            }
        }
    }
    start(default_settings());
}

TEST_F(SessionTest, DiesWithChecksThatWaitAndChecksThatAreSpare) {
    for (int i = 0; i < 10; ++i) {
        Call *check = ask(a_, "a");
        if (i % 2 == 0) {
            session_->abandon(*check, now_);
        }
    }
    session_->expire(now_ + 100ms);
    ask(a_, "b");
    start(default_settings());
}

} // namespace
} // namespace redis_client
