// Slots of `concurrency` rules: each that Redis granted is given back, whatever happens.

#include "session_test.hpp"

#include "allocations.hpp"

#include <set>
#include <string>
#include <vector>

namespace redis_client {
namespace {

const std::string slot_key = "rl:{z:a}:concurrency:60000";

Asked slot_asked(uint64_t cost = 1) {
    return {.quota = quota_of(Algorithm::concurrency, cost), .redis_key = slot_key};
}

const Script &check_of_slot() {
    static const Script one = check_script(shape_of(Algorithm::concurrency));
    return one;
}

const Script &release_script() {
    static const Script one = refund_script(Algorithm::concurrency);
    return one;
}

Command release_of(const std::string &name) {
    return {"EVALSHA", release_script().sha1, "1", slot_key, name};
}

const std::string grants = answer({99});
const std::string denies = answer({-1});
constexpr std::string_view done = "$-1\r\n";

class SessionSlotsTest : public SessionTest {
  protected:
    SessionSlotsTest() {
        SessionSettings settings;
        settings.shapes = {shape_of(Algorithm::concurrency)};
        start(settings);
    }

    /// Asks for a slot: its name, where it was sent.
    std::string ask_for_slot(Listener &listener) {
        check_ = ask(listener, {slot_asked()});
        const Commands commands = sent();
        return commands.empty() ? "" : commands.back().back();
    }

    /// A slot that is held: its name.
    std::string take_slot(Listener &listener) {
        const std::string name = ask_for_slot(listener);
        receive(grants);
        EXPECT_NE(listener.charges()[0].slot, nullptr);
        return name;
    }

    void release(Listener &listener) {
        session_->release(*std::exchange(listener.charges()[0].slot, nullptr), now_);
    }

    /// Gives back what is still held, so that each test may end with it.
    void release_all(std::vector<Listener> &listeners) {
        for (Listener &listener : listeners) {
            release(listener);
        }
        for (size_t i = 0; i < listeners.size(); ++i) {
            receive(done);
        }
    }

    /// Lets time pass, and nothing else happen.
    void wait_until(Time time) {
        while (session_->next_expiry() && *session_->next_expiry() <= time) {
            now_ = *session_->next_expiry();
            ASSERT_FALSE(session_->expire(now_));
        }
        now_ = time;
    }

    /// Leaves no room for a command.
    void fill_output() {
        const std::string large(1000, 'x');
        while (write_command(session_->output(), {"PING", large})) {
        }
        while (write_command(session_->output(), {"PING"})) {
        }
    }

    Call *check_ = nullptr; // the last that was asked
};

// Asking

TEST_F(SessionSlotsTest, LeavesMaxPendingToChecks) {
    SessionSettings settings = with_max_pending(1);
    settings.shapes = {shape_of(Algorithm::concurrency)};
    start(settings);
    log_in();
    take_slot(a_);
    session_->release(*a_.charges()[0].slot, now_);
    EXPECT_EQ(session_->pending(), 1u);
    EXPECT_NE(ask_for_slot(b_), "");
    receive(std::string(done) + denies);
}

TEST_F(SessionSlotsTest, LoadWhatReleasesThem) { // and no runs, which they never share
    session_->connected();
    EXPECT_EQ(sent(), (Commands{{"SCRIPT", "LOAD", check_of_slot().source},
                                {"SCRIPT", "LOAD", release_script().source}}));
    EXPECT_EQ(receive("+sha1\r\n"), Progress::more);
    EXPECT_EQ(receive("+sha1\r\n"), Progress::ready);
}

TEST_F(SessionSlotsTest, AreAskedForByNamesOfTheirOwn) {
    log_in();
    ask(a_, {slot_asked(3), slot_asked(2)});
    ask(b_, {slot_asked(3)});
    const Commands commands = sent();
    ASSERT_EQ(commands.size(), 2u);
    const Command &check = commands[0];
    ASSERT_EQ(check.size(), 15u);
    EXPECT_EQ(Command(check.begin() + 5, check.begin() + 9),
              (Command{"100", "3", "60000000", "65001"}));
    EXPECT_TRUE(check[9].ends_with(" 3"));
    EXPECT_TRUE(check[14].ends_with(" 2"));
    EXPECT_EQ((std::set<std::string>{check[9], check[14], commands[1].back()}).size(), 3u);
    receive(answer({-1, 90}) + denies);
}

TEST_F(SessionSlotsTest, AreHeldWhereTheyAreGranted) {
    log_in();
    const std::string name = take_slot(a_);
    EXPECT_TRUE(a_.charges()[0].is_charged);
    EXPECT_EQ(a_.charges()[0].slot->name, name);
    EXPECT_EQ(session_->pending(), 0u);
    EXPECT_TRUE(session_->has_errands());
    EXPECT_TRUE(session_->next_expiry()); // to renew it

    release(a_);
    EXPECT_EQ(sent(), Commands{release_of(name)});
    EXPECT_TRUE(session_->has_errands());
    receive(done);
    EXPECT_FALSE(session_->has_errands());
    EXPECT_EQ(session_->next_expiry(), std::nullopt);
}

TEST_F(SessionSlotsTest, AreNotHeldWhereTheyAreDenied) {
    log_in();
    ask_for_slot(a_);
    receive(denies);
    EXPECT_EQ(a_.charges()[0].slot, nullptr);
    EXPECT_EQ(session_->next_expiry(), std::nullopt);
    session_->refund(a_.charges(), now_);
    EXPECT_EQ(sent(), Commands{});
}

TEST_F(SessionSlotsTest, AreNotHeldWhereAnotherRuleDenies) {
    log_in();
    ask(a_, {slot_asked(), asked("a")});
    ask(b_, {asked("a"), slot_asked()});
    receive(answer({99, -1, 1, 1, 1}) + answer({-1, 1, 1, 1, 99}));
    EXPECT_EQ(a_.charges()[0].slot, nullptr);
    EXPECT_EQ(a_.charges()[0].verdict.remaining, 100u);
    EXPECT_EQ(b_.charges()[1].slot, nullptr);
}

TEST_F(SessionSlotsTest, AreNotHeldOfARuleOnTrialThatDenies) {
    log_in();
    Asked on_trial = slot_asked();
    on_trial.dry_run = true;
    ask(a_, {on_trial, asked("a")});
    ask(b_, {on_trial, asked("a")});
    receive(answer({-1, 99, 0, 0, 0}) + answer({99, 99, 0, 0, 0}));
    EXPECT_EQ(a_.charges()[0].slot, nullptr);
    EXPECT_TRUE(a_.charges()[1].is_charged);
    ASSERT_NE(b_.charges()[0].slot, nullptr); // but of one that grants
    release(b_);
    receive(done);
}

TEST_F(SessionSlotsTest, AreNotHeldByWhoTakesNothing) {
    log_in();
    ask(a_, {slot_asked(0)});
    receive(answer({100}));
    EXPECT_EQ(a_.charges()[0].slot, nullptr);
    session_->refund(a_.charges(), now_);
    EXPECT_FALSE(session_->has_errands());
}

TEST_F(SessionSlotsTest, HaveTheSameNameWhereTheScriptIsSentInFull) {
    log_in();
    const std::string name = ask_for_slot(a_);
    receive(noscript);
    EXPECT_EQ(sent(), (Commands{{"EVAL", check_of_slot().source, "1", slot_key, "100", "1",
                                 "60000000", "65001", name}}));
    receive(grants);
    release(a_);
    EXPECT_EQ(sent(), Commands{release_of(name)});
    receive(done);
}

TEST_F(SessionSlotsTest, AreGivenBackByARefund) {
    log_in();
    ask(a_, {slot_asked(), asked("a")});
    const std::string name = sent()[0][9];
    receive(answer({99, 98, 0, 0, 0}));
    session_->refund(a_.charges(), now_);
    const Commands commands = sent();
    ASSERT_EQ(commands.size(), 2u);
    EXPECT_EQ(commands[0], release_of(name));
    EXPECT_EQ(commands[1][1], refund_script(Algorithm::sliding_log).source);
    EXPECT_EQ(a_.charges()[0].slot, nullptr);
    EXPECT_FALSE(a_.charges()[0].is_charged);
    receive(done);
    EXPECT_TRUE(session_->has_errands());
    receive(done);
}

// Releasing

TEST_F(SessionSlotsTest, AreReleasedInFullWhereRedisDoesNotKnowTheScript) {
    log_in();
    const std::string name = take_slot(a_);
    release(a_);
    sent();
    EXPECT_EQ(receive(noscript), Progress::more);
    EXPECT_EQ(sent(), (Commands{{"EVAL", release_script().source, "1", slot_key, name}}));
    EXPECT_TRUE(session_->has_errands());
    receive(done);
}

TEST_F(SessionSlotsTest, AreReleasedAgainWhereRedisReportedAnError) {
    log_in();
    const std::string name = take_slot(a_);
    release(a_);
    sent();
    EXPECT_EQ(receive("-BUSY Redis is busy\r\n"), Progress::more);
    EXPECT_TRUE(session_->has_errands());
    EXPECT_EQ(session_->pending(), 0u);
    EXPECT_FALSE(session_->takes_errands()); // so that a worker that is to leave does not wait
    EXPECT_EQ(sent(), Commands{});
    wait_until(now_ + 10s);
    EXPECT_EQ(sent(), Commands{release_of(name)});
    receive(noscript);
    receive(noscript); // to the whole script too
    EXPECT_EQ(sent().size(), 1u);
    wait_until(now_ + 10s);
    EXPECT_EQ(sent(), Commands{release_of(name)});
    receive(done);
    EXPECT_TRUE(session_->takes_errands());
}

TEST_F(SessionSlotsTest, AreReleasedOnceWhileAReleaseIsOnItsWay) {
    SessionSettings settings;
    settings.shapes = {shape_of(Algorithm::concurrency)};
    settings.timeout = 1h; // else the connection would be given up
    start(settings);
    log_in();
    take_slot(a_);
    release(a_);
    EXPECT_EQ(sent().size(), 1u);
    wait_until(now_ + 10min); // beyond its window, too
    EXPECT_EQ(sent(), Commands{});
    EXPECT_TRUE(session_->has_errands());
    receive(done);
}

TEST_F(SessionSlotsTest, AreReleasedWhenRedisCanBeReachedAgain) {
    for (const Lost lost : {Lost::in_use, Lost::unreachable}) {
        log_in();
        const std::string name = take_slot(a_);
        session_->disconnected(lost, now_);
        release(a_);
        EXPECT_EQ(sent(), Commands{});
        EXPECT_TRUE(session_->has_errands());
        wait_until(now_ + 20s);
        EXPECT_EQ(sent(), Commands{});
        log_in();
        EXPECT_EQ(sent(), Commands{release_of(name)});
        receive(done);
        EXPECT_FALSE(session_->has_errands());
    }
}

TEST_F(SessionSlotsTest, AreReleasedAgainWhereTheConnectionBroke) {
    log_in();
    const std::string name = take_slot(a_);
    release(a_);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(sent(), Commands{release_of(name)});
        session_->disconnected(Lost::in_use, now_);
        EXPECT_TRUE(session_->has_errands());
        EXPECT_EQ(session_->pending(), 0u);
        log_in();
    }
    receive(done);
}

TEST_F(SessionSlotsTest, AreForgottenWhenRedisHasForgottenThem) {
    log_in();
    take_slot(a_);
    session_->disconnected(Lost::unreachable, now_);
    release(a_);
    wait_until(Time{60'999});
    EXPECT_TRUE(session_->has_errands());
    wait_until(Time{71'000}); // a look later
    EXPECT_FALSE(session_->has_errands());
    EXPECT_EQ(session_->next_expiry(), std::nullopt);
    log_in();
    EXPECT_EQ(sent(), Commands{});
}

// Checks that end otherwise

TEST_F(SessionSlotsTest, OfATimedOutCheckAreReleased) {
    log_in();
    const std::string name = ask_for_slot(a_);
    session_->expire(now_ + 100ms);
    EXPECT_EQ(a_.results, Results{Failure::timeout});
    EXPECT_EQ(a_.charges()[0].slot, nullptr);
    EXPECT_EQ(sent(), Commands{release_of(name)});
    receive(grants + std::string(done)); // late, but then it is released
    EXPECT_FALSE(session_->has_errands());
}

TEST_F(SessionSlotsTest, OfACheckThatTimedOutBeforeItWasSentNeedNoRelease) {
    ask_for_slot(a_);
    session_->expire(now_ + 100ms);
    EXPECT_EQ(a_.results, Results{Failure::timeout});
    EXPECT_FALSE(session_->has_errands());
    log_in();
    EXPECT_EQ(sent(), Commands{});
}

TEST_F(SessionSlotsTest, OfAnAbandonedCheckAreReleased) {
    log_in();
    const std::string name = ask_for_slot(a_);
    session_->abandon(*check_, now_);
    a_.charges().clear();
    a_.charges().shrink_to_fit();
    EXPECT_EQ(sent(), Commands{release_of(name)});
    receive(std::string(noscript) + std::string(done)); // the check has done nothing, for nobody
    EXPECT_EQ(sent(), Commands{});
    EXPECT_EQ(a_.results, Results{});
}

TEST_F(SessionSlotsTest, OfACheckAbandonedBeforeItWasSentNeedNoRelease) {
    ask_for_slot(a_);
    session_->abandon(*check_, now_);
    EXPECT_FALSE(session_->has_errands());
    log_in();
    EXPECT_EQ(sent(), Commands{});
}

TEST_F(SessionSlotsTest, OfACheckThatFailedAreReleased) {
    log_in();
    const std::string name = ask_for_slot(a_);
    EXPECT_EQ(receive("-OOM command not allowed\r\n"), Progress::more); // perhaps after its ZADD
    EXPECT_EQ(a_.results, Results{Failure::reply});
    EXPECT_EQ(a_.charges()[0].slot, nullptr);
    EXPECT_EQ(sent(), Commands{release_of(name)});
    receive(done);
}

// Else each check that a Redis refuses, which has no disk left, would stay for a window, and be
// told of again and again.
TEST_F(SessionSlotsTest, OfACheckThatFailedAreReleasedOnce) {
    log_in();
    const std::string name = ask_for_slot(a_);
    receive("-MISCONF Errors writing to the disk\r\n");
    EXPECT_EQ(sent(), Commands{release_of(name)});
    receive("-MISCONF Errors writing to the disk\r\n");
    EXPECT_FALSE(session_->has_errands());
    wait_until(now_ + 10s);
    EXPECT_EQ(sent(), Commands{});
}

TEST_F(SessionSlotsTest, OfACheckThatFailedAreLeftWhereTheConnectionBreaks) {
    log_in();
    ask_for_slot(a_);
    EXPECT_EQ(receive("-READONLY You can't write against a read only replica.\r\n"),
              Progress::broken);
    session_->disconnected(Lost::unreachable, now_);
    EXPECT_FALSE(session_->has_errands());
}

TEST_F(SessionSlotsTest, OfACheckOnALostConnectionAreReleasedOnTheNext) {
    log_in();
    const std::string name = ask_for_slot(a_);
    session_->disconnected(Lost::in_use, now_);
    EXPECT_EQ(a_.results, Results{Failure::connect});
    EXPECT_EQ(a_.charges()[0].slot, nullptr);
    EXPECT_TRUE(session_->has_errands());
    log_in();
    EXPECT_EQ(sent(), Commands{release_of(name)});
    receive(done);
}

TEST_F(SessionSlotsTest, OfACheckWithAWrongReplyAreReleasedOnTheNextConnection) {
    log_in();
    const std::string name = ask_for_slot(a_);
    EXPECT_EQ(receive(answer({100})), Progress::broken);
    session_->disconnected(Lost::unreachable, now_);
    EXPECT_EQ(a_.charges()[0].slot, nullptr);
    log_in();
    EXPECT_EQ(sent(), Commands{release_of(name)});
    receive(done);
}

TEST_F(SessionSlotsTest, OfACheckThatNeverGotAConnectionNeedNoRelease) {
    ask_for_slot(a_);
    session_->disconnected(Lost::unreachable, now_);
    EXPECT_EQ(a_.results, Results{Failure::connect});
    EXPECT_EQ(a_.charges()[0].slot, nullptr);
    EXPECT_FALSE(session_->has_errands());
}

TEST_F(SessionSlotsTest, OfACheckWhoseFateIsUnknownAreForgottenAWindowAfterItsEnd) {
    log_in();
    ask_for_slot(a_);
    now_ += 50ms;
    session_->disconnected(Lost::unreachable, now_);
    wait_until(Time{61'049});
    EXPECT_TRUE(session_->has_errands());
    wait_until(Time{71'050});
    EXPECT_FALSE(session_->has_errands());
}

// Renewals

Command renewal_of(const std::vector<std::string> &names) {
    Command command = {"EVAL", renew_script().source, std::to_string(names.size())};
    command.insert(command.end(), names.size(), slot_key);
    for (const std::string &name : names) {
        command.insert(command.end(), {"60000000", "65001", name});
    }
    return command;
}

TEST_F(SessionSlotsTest, AreRenewedEachThirdOfTheirWindow) {
    log_in();
    const std::string name = take_slot(a_);
    for (int i = 0; i < 5; ++i) {
        wait_until(now_ + 19'999ms);
        EXPECT_EQ(sent(), Commands{});
        wait_until(now_ + 1ms);
        EXPECT_EQ(sent(), Commands{renewal_of({name})});
        receive(done);
        EXPECT_EQ(session_->pending(), 0u);
    }
    release(a_);
    receive(done);
}

TEST_F(SessionSlotsTest, AreRenewedAThirdAfterTheSendingOfTheirCheck) {
    SessionSettings settings;
    settings.shapes = {shape_of(Algorithm::concurrency)};
    settings.timeout = 1min;
    start(settings);
    ask_for_slot(a_);
    now_ += 10s;
    log_in();
    EXPECT_EQ(sent().size(), 1u);
    now_ += 1s; // the answer takes its time
    receive(grants);
    wait_until(Time{30'999});
    EXPECT_EQ(sent(), Commands{});
    wait_until(Time{31'000});
    EXPECT_EQ(sent().size(), 1u);
    receive(done);
    release(a_);
    receive(done);
}

TEST_F(SessionSlotsTest, AreNotRenewedOnceTheyAreGivenBack) {
    log_in();
    take_slot(a_);
    wait_until(now_ + 19s);
    release(a_);
    sent();
    receive("-BUSY Redis is busy\r\n");
    wait_until(now_ + 1s);
    const Commands commands = sent();
    ASSERT_EQ(commands.size(), 1u);
    EXPECT_EQ(commands[0][1], release_script().sha1);
    receive(done);
}

TEST_F(SessionSlotsTest, AreRenewedSixtyFourAtOnce) {
    log_in();
    std::vector<Listener> listeners(130);
    std::vector<std::string> names;
    for (Listener &listener : listeners) {
        names.push_back(take_slot(listener));
    }
    wait_until(now_ + 20s);
    EXPECT_EQ(sent(), (Commands{renewal_of({names.begin(), names.begin() + 64}),
                                renewal_of({names.begin() + 64, names.begin() + 128}),
                                renewal_of({names.begin() + 128, names.end()})}));
    receive("$-1\r\n$-1\r\n$-1\r\n");
    release_all(listeners);
}

TEST_F(SessionSlotsTest, AreRenewedInAFullCommandAndNoEmptyOne) {
    log_in();
    std::vector<Listener> listeners(65);
    for (size_t i = 0; i < 64; ++i) {
        take_slot(listeners[i]);
    }
    now_ += 15s;
    session_->expire(now_);
    take_slot(listeners[64]); // the last one is not due yet
    wait_until(Time{26'000}); // looked at each 10 s
    const Commands commands = sent();
    ASSERT_EQ(commands.size(), 1u);
    EXPECT_EQ(commands[0][2], "64");
    receive(done);
    release_all(listeners);
}

TEST_F(SessionSlotsTest, AreRenewedWhereTheLastOfThemIsNotDue) {
    log_in();
    const std::string name = take_slot(a_);
    now_ += 15s;
    session_->expire(now_);
    take_slot(b_);
    wait_until(Time{26'000});
    EXPECT_EQ(sent(), Commands{renewal_of({name})});
    receive(done);
    release(a_);
    release(b_);
    receive("$-1\r\n$-1\r\n");
}

TEST_F(SessionSlotsTest, AreRenewedAtOnceOnTheNextConnection) {
    log_in();
    const std::string name = take_slot(a_);
    session_->disconnected(Lost::in_use, now_);
    wait_until(now_ + 30s);
    EXPECT_EQ(sent(), Commands{}); // to nobody
    log_in();
    EXPECT_EQ(sent(), Commands{renewal_of({name})});
    receive(done);
    session_->expire(now_);
    EXPECT_EQ(sent(), Commands{});
    release(a_);
    receive(done);
}

TEST_F(SessionSlotsTest, AreRenewedAThirdLaterWhereRedisReportedAnError) {
    log_in();
    const std::string name = take_slot(a_);
    for (const std::string_view reply : {std::string_view("-BUSY Redis is busy\r\n"), noscript}) {
        wait_until(now_ + 20s);
        EXPECT_EQ(sent(), Commands{renewal_of({name})});
        EXPECT_EQ(receive(reply), Progress::more);
        EXPECT_EQ(sent(), Commands{});
        EXPECT_EQ(session_->pending(), 0u);
    }
    release(a_);
    receive(done);
}

TEST_F(SessionSlotsTest, GiveUpAConnectionThatDoesNotAnswerARenewal) {
    log_in();
    take_slot(a_);
    wait_until(now_ + 20s);
    EXPECT_EQ(session_->next_expiry(), now_ + 1000ms);
    EXPECT_TRUE(session_->expire(now_ + 1000ms));
    session_->disconnected(Lost::unreachable, now_);
    EXPECT_EQ(session_->pending(), 0u);
    EXPECT_TRUE(session_->has_errands()); // it is still held
    log_in();
    EXPECT_EQ(sent().size(), 1u);
    receive(done);
    release(a_);
    receive(done);
}

// Without memory

TEST_F(SessionSlotsTest, AreNotAskedForWithoutMemoryForThem) {
    log_in();
    take_slot(a_);
    release(a_);
    receive(done);
    sent();
    const NoNewObjects refused;            // but there is a call to spare, and a slot
    ask(b_, {slot_asked(), slot_asked()}); // which takes two
    EXPECT_EQ(b_.charges()[0].slot, nullptr);
    EXPECT_EQ(b_.charges()[1].slot, nullptr);
    EXPECT_EQ(b_.results, Results{});
    EXPECT_EQ(session_->problem().what, "out of memory");
    EXPECT_EQ(sent(), Commands{});
    EXPECT_FALSE(session_->has_errands());
    EXPECT_EQ(session_->pending(), 0u);

    take_slot(c_); // the one there is
    release(c_);
    receive(done);
}

TEST_F(SessionSlotsTest, AreNotAskedForWithoutMemoryForACall) {
    log_in();
    const NoNewObjects refused;
    EXPECT_EQ(refusal(), Failure::overload);
    EXPECT_EQ(ask(a_, {slot_asked()}), nullptr);
    EXPECT_EQ(a_.charges()[0].slot, nullptr);
    EXPECT_EQ(session_->counters().failures, 2u);
}

TEST_F(SessionSlotsTest, AreReleasedLaterWithoutMemoryForACall) {
    log_in();
    const std::string name = take_slot(a_);
    Call *in_use = ask(b_, "b"); // the only call there is
    sent();
    {
        const NoNewObjects refused;
        release(a_);
        EXPECT_EQ(sent(), Commands{});
        EXPECT_TRUE(session_->has_errands());
    }
    session_->abandon(*in_use, now_);
    receive(grant(1));
    wait_until(now_ + 10s);
    EXPECT_EQ(sent(), Commands{release_of(name)});
    receive(done);
}

TEST_F(SessionSlotsTest, AreRenewedLaterWithoutMemoryForACall) {
    log_in();
    const std::string name = take_slot(a_);
    now_ += 20s;
    ask(b_, "b");
    sent();
    {
        const NoNewObjects refused;
        session_->expire(now_);
        EXPECT_EQ(sent(), Commands{});
    }
    receive(grant(1));
    wait_until(now_ + 20s);
    EXPECT_EQ(sent(), Commands{renewal_of({name})});
    receive(done);
    release(a_);
    receive(done);
}

TEST_F(SessionSlotsTest, SurviveThatThereIsNoMemoryForCommands) {
#if !defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "it takes AddressSanitizer to refuse memory early";
#endif
    log_in();
    const std::string held = take_slot(a_);
    const std::string given_back = take_slot(b_);
    ask(c_, "c");
    receive(grant(9));
    now_ += 19s;
    session_->expire(now_);
    sent();

    fill_output();
    release(b_);
    session_->refund(c_.charges(), now_);
    ask(c_, {slot_asked()});
    EXPECT_EQ(c_.results.back(), Result(Failure::overload));
    EXPECT_EQ(c_.charges()[0].slot, nullptr);
    now_ += 10s;
    session_->expire(now_); // to renew what is held
    EXPECT_EQ(session_->pending(), 0u);
    EXPECT_TRUE(session_->has_errands());

    sent(); // there is room again
    wait_until(now_ + 10s);
    EXPECT_EQ(sent(), Commands{release_of(given_back)});
    receive(done);
    wait_until(now_ + 10s);
    EXPECT_EQ(sent(), Commands{renewal_of({held})});
    receive(done);
    release(a_);
    receive(done);
}

TEST_F(SessionSlotsTest, OfAWaitingCheckWithoutMemoryToSendItNeedNoRelease) {
#if !defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "it takes AddressSanitizer to refuse memory early";
#endif
    ask_for_slot(a_);
    session_->connected();
    fill_output();
    session_->received(std::string(loaded) + "+sha1\r\n", now_);
    session_->flush(now_);
    EXPECT_EQ(a_.results, Results{Failure::overload});
    EXPECT_EQ(a_.charges()[0].slot, nullptr);
    EXPECT_FALSE(session_->has_errands());
}

// Destruction: AddressSanitizer tells of what is leaked or freed twice.

TEST_F(SessionSlotsTest, DieInEveryState) {
    log_in();
    Listener waiting, asking, held, renewed, releasing, returning;
    take_slot(renewed);
    wait_until(now_ + 20s); // a renewal is on its way
    ask_for_slot(held);
    receive(std::string(done) + grants);
    take_slot(releasing);
    release(releasing);
    ask_for_slot(asking);
    session_->disconnected(Lost::in_use, now_);
    session_->connected();
    ask_for_slot(waiting);
    release(held);
    SessionSettings settings;
    start(settings);
}

} // namespace
} // namespace redis_client
