#include "redis_client/session.hpp"

#include "allocations.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace redis_client {
namespace {

using namespace std::chrono_literals;
using rate_limit::Decision;
using rate_limit::Verdict;

using Command = std::vector<std::string>;
using Commands = std::vector<Command>;
using Results = std::vector<CheckResult>;
using Lost = Session::Lost;
using Progress = Session::Progress;

struct Listener final : CheckListener {
    void on_result(const CheckResult &result) override { results.push_back(result); }
    Results results;
};

const PreparedRule &rule() {
    static const PreparedRule prepared = [] {
        rate_limit::Rule a_rule;
        a_rule.zone = "z";
        a_rule.limit = 100;
        a_rule.window = 60s;
        return PreparedRule(a_rule, "rl:");
    }();
    return prepared;
}

const Script &script() {
    return *rule().script;
}

/// What is left tells one verdict from another.
CheckResult granted(uint64_t remaining) {
    return Verdict{.remaining = remaining};
}

Command evalsha(const std::string &key) {
    return {"EVALSHA", script().sha1, "1",    "rl:{z:" + key + "}:sliding_log:60000",
            "100",     "60000000",    "65001"};
}

Command eval(const std::string &key) {
    Command command = evalsha(key);
    command[0] = "EVAL";
    command[1] = script().source;
    return command;
}

std::string numbers(std::initializer_list<int64_t> all) {
    std::string reply = "*" + std::to_string(all.size()) + "\r\n";
    for (const int64_t number : all) {
        reply += ":" + std::to_string(number) + "\r\n";
    }
    return reply;
}

std::string grant(int64_t remaining) {
    return numbers({0, remaining, 0, 0});
}

constexpr std::string_view noscript = "-NOSCRIPT No matching script. Please use EVAL.\r\n";

/// The commands in `bytes`, which must be whole and well-formed.
Commands parse_commands(std::string_view bytes) {
    Commands commands;
    const auto number_after = [&](char kind) {
        EXPECT_EQ(bytes.substr(0, 1), std::string_view(&kind, 1));
        const size_t end = bytes.find("\r\n");
        const size_t number = std::stoul(std::string(bytes.substr(1, end - 1)));
        bytes.remove_prefix(end + 2);
        return number;
    };
    while (!bytes.empty()) {
        Command command(number_after('*'));
        for (std::string &word : command) {
            const size_t size = number_after('$');
            word = bytes.substr(0, size);
            EXPECT_EQ(bytes.substr(size, 2), "\r\n");
            bytes.remove_prefix(size + 2);
        }
        commands.push_back(command);
    }
    return commands;
}

/// What the transport does at the end of a turn.
std::string flush(Session &session) {
    std::string bytes(session.output().bytes());
    session.output().consume(bytes.size());
    return bytes;
}

SessionSettings default_settings() {
    SessionSettings settings;
    settings.scripts = {&script()};
    return settings;
}

SessionSettings with_timeout(std::chrono::milliseconds timeout) {
    SessionSettings settings = default_settings();
    settings.timeout = timeout;
    return settings;
}

SessionSettings with_max_pending(size_t max_pending) {
    SessionSettings settings = default_settings();
    settings.max_pending = max_pending;
    return settings;
}

/// A session and the hand that plays Redis, the network and the clock to it.
class SessionTest : public testing::Test {
  protected:
    void TearDown() override { EXPECT_EQ(session_->pending(), 0u); }

    void start(const SessionSettings &settings) {
        session_.emplace(settings);
        wire_.clear();
    }

    /// A connection without AUTH and SELECT, up to ready.
    void log_in() {
        session_->connected();
        wire_.clear();
        EXPECT_EQ(sent(), (Commands{{"SCRIPT", "LOAD", loaded_script()}}));
        EXPECT_EQ(receive("$40\r\n" + script().sha1 + "\r\n"), Progress::ready);
    }

    static std::string loaded_script() { return std::string(script().source); }

    Check *ask(Listener &listener, std::string_view key) {
        const auto asked = session_->ask(rule(), key, listener, now_);
        Check *const *check = std::get_if<Check *>(&asked);
        return check != nullptr ? *check : nullptr;
    }

    /// What ask() answers at once, where it does.
    std::optional<Failure> refusal() {
        const auto asked = session_->ask(rule(), "refused", nobody_, now_);
        const Failure *failure = std::get_if<Failure>(&asked);
        return failure != nullptr ? std::optional(*failure) : std::nullopt;
    }

    /// The commands since the last call.
    Commands sent() {
        wire_ += flush(*session_);
        return parse_commands(std::exchange(wire_, {}));
    }

    /// Redis answers what it has seen.
    Progress receive(std::string_view bytes) {
        wire_ += flush(*session_);
        return session_->received(bytes, now_);
    }

    std::string wire_; // what the transport took, for Redis to read
    std::optional<Session> session_{std::in_place, default_settings()};
    Time now_{1000};
    Listener a_, b_, c_;

  private:
    Listener nobody_;
};

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
        expected.push_back({"SCRIPT", "LOAD", loaded_script()});
        EXPECT_EQ(sent(), expected);

        for (size_t i = 0; i < login.commands.size(); ++i) {
            EXPECT_EQ(receive("+OK\r\n"), Progress::more);
            EXPECT_FALSE(session_->is_ready());
        }
        EXPECT_EQ(receive("$40\r\n" + script().sha1 + "\r\n"), Progress::ready);
        EXPECT_TRUE(session_->is_ready());
        EXPECT_EQ(sent(), Commands{});
    }
}

TEST_F(SessionTest, LogsInOnRepliesCutAnywhere) {
    const std::string replies = "+OK\r\n+OK\r\n$40\r\n" + script().sha1 + "\r\n";
    for (size_t cut = 0; cut < replies.size(); ++cut) {
        start(settings_of(logins.back()));
        session_->connected();
        EXPECT_EQ(receive(replies.substr(0, cut)), Progress::more);
        EXPECT_EQ(receive(replies.substr(cut)), Progress::ready);
    }
}

TEST_F(SessionTest, LogsInAgainOnEachConnection) {
    for (int i = 0; i < 3; ++i) {
        log_in();
        session_->disconnected(Lost::in_use);
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
        EXPECT_EQ(receive("-WRONGPASS invalid pair\r\n"), Progress::broken);
        EXPECT_FALSE(session_->is_ready());
        EXPECT_EQ(session_->problem().what, names[refused]);
        // Of AUTH only the kind of error: the rest may repeat the password.
        EXPECT_EQ(session_->problem().redis_said,
                  names[refused] == "AUTH" ? "WRONGPASS" : "WRONGPASS invalid pair");
        EXPECT_EQ(sent(), Commands{});

        session_->disconnected(Lost::unreachable);
        EXPECT_EQ(a_.results, Results{Failure::connect});
        a_.results.clear();
    }
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
    session_->disconnected(Lost::unreachable);
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
                                {"SCRIPT", "LOAD", loaded_script()}}));
    receive("+OK\r\n");
    ask(c_, "c");
    receive("+OK\r\n");
    EXPECT_EQ(sent(), Commands{});
    EXPECT_TRUE(session_->has_waiting());

    EXPECT_EQ(receive("+sha1\r\n"), Progress::ready);
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

TEST_F(SessionTest, EncodesAnyClientKey) {
    log_in();
    ask(a_, std::string_view("a\0}\r\n", 5));
    EXPECT_EQ(sent(), Commands{evalsha("a%00%7D%0D%0A")});
    receive(grant(1));
}

TEST_F(SessionTest, TellsTheWholeVerdict) {
    log_in();
    ask(a_, "a");
    receive(numbers({1'250'000, 0, 1'250'000, 60'000'000}));
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
    session_->disconnected(Lost::unreachable);
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
    Check *left = ask(b_, "b");
    ask(c_, "c");
    session_->abandon(*left);
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
    Check *left = ask(b_, "b");
    ask(c_, "c");
    session_->abandon(*left);
    EXPECT_EQ(session_->pending(), 3u);
    receive(grant(1) + grant(2) + grant(3));
    EXPECT_EQ(a_.results, Results{granted(1)});
    EXPECT_EQ(b_.results, Results{});
    EXPECT_EQ(c_.results, Results{granted(3)});
}

TEST_F(SessionTest, TellsNobodyOfAnAbandonedCheckThatExpiresOrFails) {
    log_in();
    session_->abandon(*ask(a_, "a"));
    session_->expire(now_ + 500ms);
    session_->disconnected(Lost::unreachable);
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
    session_->abandon(*ask(a_, "a"));
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
          "NOAUTH", "noscript", "E", ""}) {
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
        session_->disconnected(Lost::unreachable);
        EXPECT_EQ(b.results, Results{Failure::connect});
    }
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
        "*-1\r\n",
        "*0\r\n",
        ":0\r\n",
        numbers({0, 1, 2}),
        numbers({0, 1, 2, 3, 4}),
        numbers({-1, 0, 0, 0}),
        numbers({0, -1, 0, 0}),
        numbers({0, 0, -1, 0}),
        numbers({0, 0, 0, -1}),
        numbers({0, 101, 0, 0}),
        "*1\r\n" + numbers({0, 1, 2, 3}),
        "*4\r\n$1\r\n0\r\n:1\r\n:2\r\n:3\r\n",
        "*4\r\n:0\r\n:1\r\n:2\r\n$-1\r\n",
        "HTTP/1.1 200 OK\r\n",
        "*4294967295\r\n",
    };
    for (const std::string &reply : replies) {
        Listener a, b, abandoned;
        log_in();
        ask(a, "a");
        ask(b, "b");
        session_->abandon(*ask(abandoned, "c"));
        EXPECT_EQ(receive(reply + grant(7)), Progress::broken) << reply;
        EXPECT_FALSE(session_->problem().what.empty());
        EXPECT_EQ(a.results, Results{});
        session_->disconnected(Lost::in_use);
        EXPECT_EQ(a.results, Results{Failure::connect}) << reply;
        EXPECT_EQ(b.results, Results{Failure::connect}) << reply;
        EXPECT_EQ(abandoned.results, Results{});
    }
}

TEST_F(SessionTest, BreaksOnAWrongReplyToNobodyToo) {
    log_in();
    session_->abandon(*ask(a_, "a"));
    EXPECT_EQ(receive("+OK\r\n"), Progress::broken);
    session_->disconnected(Lost::in_use);
}

TEST_F(SessionTest, BreaksOnAReplyThatNothingAskedFor) {
    for (const std::string &reply :
         {grant(1), std::string("-ERR idle\r\n"), std::string("+OK\r\n"), std::string(noscript)}) {
        log_in();
        ask(a_, "a");
        EXPECT_EQ(receive(grant(1)), Progress::more);
        EXPECT_EQ(receive(reply), Progress::broken) << reply;
        EXPECT_FALSE(session_->problem().what.empty());
        session_->disconnected(Lost::in_use);
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
    EXPECT_EQ(receive("+sha1\r\n" + grant(1)), Progress::broken);
    session_->disconnected(Lost::unreachable);
    EXPECT_EQ(a_.results, Results{Failure::connect});
}

TEST_F(SessionTest, BreaksOnAReplyBehindTheLoginWhereNobodyWaits) {
    session_->connected();
    EXPECT_EQ(receive("+sha1\r\n" + grant(1)), Progress::broken);
}

// Connections that come and go

TEST_F(SessionTest, WaitsForTheNextConnectionWhereOneThatWorkedIsLost) {
    log_in();
    ask(a_, "a");
    ask(b_, "b");
    session_->abandon(*ask(c_, "c"));
    session_->disconnected(Lost::in_use);
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
    session_->disconnected(Lost::in_use);
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
    session_->abandon(*ask(c_, "c"));
    ask(b_, "b");
    session_->disconnected(Lost::unreachable);
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
    session_->disconnected(Lost::unreachable);
    EXPECT_EQ(a_.results, Results{Failure::timeout});
    EXPECT_EQ(b_.results, Results{Failure::connect});
}

TEST_F(SessionTest, RefusesAtOnceUntilRedisIsReachedAgain) {
    session_->disconnected(Lost::unreachable);
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
    session_->disconnected(Lost::unreachable);
    EXPECT_EQ(a_.results, Results{Failure::connect});
}

TEST_F(SessionTest, BeginsANewConnectionWithCleanBytes) {
    log_in();
    ask(a_, "a");
    session_->output().consume(10); // half a command left
    receive("*4\r\n:0\r\n:9");      // half a reply came
    session_->disconnected(Lost::in_use);
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
    session_->disconnected(Lost::in_use);
    EXPECT_EQ(a_.results, Results{Failure::connect});
    log_in();
    EXPECT_EQ(sent(), Commands{});
}

// Bounds

TEST_F(SessionTest, RefusesMoreThanMaxPending) {
    start(with_max_pending(2));
    ask(a_, "a");
    Check *left = ask(b_, "b");
    EXPECT_EQ(refusal(), Failure::overload);
    EXPECT_EQ(session_->pending(), 2u);
    session_->abandon(*left); // not sent yet: room for another
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
    session_->abandon(*ask(a_, "a"));
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
    while (ask(a_, "a") != nullptr) {
        ++room;
    }
    EXPECT_EQ(session_->problem().what, "out of memory");
    EXPECT_EQ(session_->pending(), room);
    EXPECT_EQ(sent().size(), room);
    session_->disconnected(Lost::in_use);
    a_.results.clear();

    start(with_max_pending(SIZE_MAX));
    for (size_t i = 0; i < room + 3; ++i) {
        ask(a_, "a");
    }
    log_in();
    EXPECT_EQ(a_.results, Results(3, Failure::overload));
    EXPECT_EQ(sent().size(), room);
    EXPECT_EQ(session_->pending(), room);
    ask(b_, "b"); // the socket took all, so there is room again
    EXPECT_EQ(sent(), Commands{evalsha("b")});
    session_->disconnected(Lost::in_use);
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
    session_->abandon(*ask(a_, "a")); // never sent: nothing came of it
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
    session_->abandon(*ask(a_, "a"));
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
    session_->abandon(*ask(c_, "c"));
    EXPECT_EQ(refusal(), Failure::overload);
    EXPECT_EQ(counts(), Counts(3, 5));
    session_->disconnected(Lost::unreachable);
    EXPECT_EQ(counts(), Counts(3, 7));
    EXPECT_EQ(refusal(), Failure::connect);
    EXPECT_EQ(counts(), Counts(3, 8));
}

TEST_F(SessionTest, SaysWhyItFailsAtOnceOrAtADeadline) {
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
            Session session{default_settings()};
            Listener listener;
            const auto ask_one = [&] {
                return std::get<Check *>(session.ask(rule(), "a", listener, now_));
            };
            session.connected();
            if (ready) {
                session.received("+sha1\r\n", now_);
            }
            for (int i = 0; i < sent_count; ++i) {
                session.abandon(*ask_one());
                ask_one();
            }
            if (ready) {
                flush(session);
                session.received(noscript, now_); // to nobody
                if (sent_count > 0) {
                    flush(session);
                    session.received(noscript, now_); // to a check, sent again in full
                }
            }
        }
    }
}

TEST_F(SessionTest, DiesWithChecksThatWaitAndChecksThatAreSpare) {
    Session session{default_settings()};
    Listener listener;
    for (int i = 0; i < 10; ++i) {
        const auto asked = session.ask(rule(), "a", listener, now_);
        if (i % 2 == 0) {
            session.abandon(*std::get<Check *>(asked));
        }
    }
    session.expire(now_ + 100ms);
    session.ask(rule(), "b", listener, now_);
}

/// Answers each check by its key, so that a verdict given to another's listener shows.
class PretendedRedis {
  public:
    explicit PretendedRedis(uint32_t seed) : random_(seed) {}

    void take(const Commands &commands) {
        for (const Command &command : commands) {
            replies_ += reply(command);
        }
    }

    /// Up to `size` bytes of what it has to say.
    std::string say(size_t size) {
        const std::string said = replies_.substr(0, size);
        replies_.erase(0, size);
        return said;
    }

    void hang_up() { replies_.clear(); }

  private:
    std::string reply(const Command &command) {
        if (command[0] == "SCRIPT") {
            return "+sha1\r\n";
        }
        const uint32_t chance = random_() % 8;
        if (chance == 0) {
            return "-ERR no luck\r\n";
        }
        if (chance == 1) {
            return std::string(noscript);
        }
        const std::string &key = command[3]; // rl:{z:17}:sliding_log:60000
        return grant(std::stoll(key.substr(6)));
    }

    std::mt19937 random_;
    std::string replies_;
};

TEST_F(SessionTest, GivesEachListenerOneResultOfItsOwnWhateverHappens) {
    struct Client {
        std::unique_ptr<Listener> listener = std::make_unique<Listener>();
        Check *check = nullptr;
        uint64_t number = 0;
        bool abandoned = false;
    };
    start(with_max_pending(50));
    PretendedRedis redis(2);
    std::mt19937 random(1);
    std::vector<Client> clients;
    uint64_t verdicts = 0;
    uint64_t asked = 0;
    uint64_t never_sent = 0;
    bool is_connected = false;
    bool is_stalled = false;
    const auto disconnect = [&] {
        session_->disconnected(random() % 2 == 0 ? Lost::in_use : Lost::unreachable);
        redis.hang_up();
        is_connected = false;
    };

    for (int step = 0; step < 50'000; ++step) {
        now_ += Time(random() % 5);
        const uint32_t dice = random() % 100;
        if (dice < 40) {
            Client client;
            ++asked;
            client.number = random() % 100;
            client.check = ask(*client.listener, std::to_string(client.number));
            if (client.check != nullptr) {
                clients.push_back(std::move(client));
            }
        } else if (dice < 45) {
            for (Client &client : clients) {
                if (!client.abandoned && client.listener->results.empty()) {
                    never_sent += client.check->is_sent ? 0 : 1;
                    session_->abandon(*client.check);
                    client.abandoned = true;
                    break;
                }
            }
        } else if (dice < 90 && is_connected && !is_stalled) {
            redis.take(sent());
            ASSERT_NE(receive(redis.say(random() % 200)), Progress::broken);
        } else if (dice < 95) {
            if (session_->expire(now_)) {
                disconnect();
            }
        } else if (!is_connected) {
            session_->connected();
            is_connected = true;
        } else if (dice == 98) {
            is_stalled = !is_stalled;
        } else if (dice == 99) {
            disconnect();
        }

        for (Client &client : clients) {
            const Results &results = client.listener->results;
            ASSERT_LE(results.size(), client.abandoned ? 0u : 1u);
            if (!results.empty() && std::holds_alternative<Verdict>(results[0])) {
                ASSERT_EQ(results[0], granted(client.number));
                ++verdicts;
            }
        }
        std::erase_if(clients, [](const Client &client) {
            return client.abandoned || !client.listener->results.empty();
        });
    }
    session_->disconnected(Lost::unreachable);
    for (const Client &client : clients) {
        EXPECT_EQ(client.listener->results, Results{Failure::connect});
    }
    const Counters &counters = session_->counters();
    EXPECT_EQ(counters.verdicts + counters.failures + never_sent, asked);
    EXPECT_GT(verdicts, 1000u); // else the run has shown little
}

} // namespace
} // namespace redis_client
