// Permits of `concurrency` rules: each that Redis granted is given back, once.

#include "session_permits_test.hpp"

#include <optional>
#include <set>
#include <string>

namespace redis_client {
namespace {

// Asking

TEST_F(SessionPermitsTest, LeavesMaxPendingToChecks) {
    SessionSettings settings = with_max_pending(1);
    settings.shapes = {shape_of(Algorithm::concurrency)};
    start(settings);
    log_in();
    take_permit(a_);
    session_->release(*a_.charges()[0].permit, now_);
    EXPECT_EQ(session_->pending(), 1u);
    EXPECT_NE(ask_for_permit(b_), "");
    receive(std::string(done) + denies);
}

TEST_F(SessionPermitsTest, LoadWhatReleasesThem) { // and no runs, which they never share
    session_->connected();
    EXPECT_EQ(sent(), (Commands{{"SCRIPT", "LOAD", check_of_permit().source},
                                {"SCRIPT", "LOAD", release_script().source}}));
    EXPECT_EQ(receive("+sha1\r\n"), Progress::more);
    EXPECT_EQ(receive("+sha1\r\n"), Progress::ready);
}

TEST_F(SessionPermitsTest, AreAskedForByNamesOfTheirOwn) {
    log_in();
    ask(a_, {permit_asked(3), permit_asked(2)});
    ask(b_, {permit_asked(3)});
    const Commands commands = sent();
    ASSERT_EQ(commands.size(), 2u);
    const WireCommand &check = commands[0];
    ASSERT_EQ(check.size(), 15u);
    EXPECT_EQ(WireCommand(check.begin() + 5, check.begin() + 9),
              (WireCommand{"100", "3", "60000000", "65001"}));
    EXPECT_TRUE(check[9].ends_with(" 3"));
    EXPECT_TRUE(check[14].ends_with(" 2"));
    EXPECT_EQ((std::set<std::string>{check[9], check[14], commands[1].back()}).size(), 3u);
    receive(answer({-1, 90}) + denies);
}

TEST_F(SessionPermitsTest, AreHeldWhereTheyAreGranted) {
    log_in();
    const std::string name = take_permit(a_);
    EXPECT_TRUE(a_.charges()[0].is_charged);
    EXPECT_EQ(a_.charges()[0].permit->name, name);
    EXPECT_EQ(session_->pending(), 0u);
    EXPECT_TRUE(session_->has_background_commands());
    EXPECT_TRUE(session_->next_expiry()); // to renew it

    release(a_);
    EXPECT_EQ(sent(), Commands{release_of(name)});
    EXPECT_TRUE(session_->has_background_commands());
    receive(done);
    EXPECT_FALSE(session_->has_background_commands());
    EXPECT_EQ(session_->next_expiry(), std::nullopt);
}

TEST_F(SessionPermitsTest, AreNotHeldWhereTheyAreDenied) {
    log_in();
    ask_for_permit(a_);
    receive(denies);
    EXPECT_EQ(a_.charges()[0].permit, nullptr);
    EXPECT_EQ(session_->next_expiry(), std::nullopt);
    session_->refund(a_.charges(), now_);
    EXPECT_EQ(sent(), Commands{});
}

TEST_F(SessionPermitsTest, AreNotHeldWhereAnotherRuleDenies) {
    log_in();
    ask(a_, {permit_asked(), asked("a")});
    ask(b_, {asked("a"), permit_asked()});
    receive(answer({99, -1, 1, 1, 1}) + answer({-1, 1, 1, 1, 99}));
    EXPECT_EQ(a_.charges()[0].permit, nullptr);
    EXPECT_EQ(a_.charges()[0].verdict.remaining, 100u);
    EXPECT_EQ(b_.charges()[1].permit, nullptr);
}

TEST_F(SessionPermitsTest, AreNotHeldOfARuleOnTrialThatDenies) {
    log_in();
    Asked on_trial = permit_asked();
    on_trial.dry_run = true;
    ask(a_, {on_trial, asked("a")});
    ask(b_, {on_trial, asked("a")});
    receive(answer({-1, 99, 0, 0, 0}) + answer({99, 99, 0, 0, 0}));
    EXPECT_EQ(a_.charges()[0].permit, nullptr);
    EXPECT_TRUE(a_.charges()[1].is_charged);
    ASSERT_NE(b_.charges()[0].permit, nullptr); // but of one that grants
    release(b_);
    receive(done);
}

TEST_F(SessionPermitsTest, AreNotHeldByWhoTakesNothing) {
    log_in();
    ask(a_, {permit_asked(0)});
    receive(answer({100}));
    EXPECT_EQ(a_.charges()[0].permit, nullptr);
    session_->refund(a_.charges(), now_);
    EXPECT_FALSE(session_->has_background_commands());
}

TEST_F(SessionPermitsTest, HaveTheSameNameWhereTheScriptIsSentInFull) {
    log_in();
    const std::string name = ask_for_permit(a_);
    receive(noscript);
    EXPECT_EQ(sent(), (Commands{{"EVAL", check_of_permit().source, "1", permit_key, "100", "1",
                                 "60000000", "65001", name}}));
    receive(grants);
    release(a_);
    EXPECT_EQ(sent(), Commands{release_of(name)});
    receive(done);
}

TEST_F(SessionPermitsTest, AreGivenBackByARefund) {
    log_in();
    ask(a_, {permit_asked(), asked("a")});
    const std::string name = sent()[0][9];
    receive(answer({99, 98, 0, 0, 0}));
    session_->refund(a_.charges(), now_);
    const Commands commands = sent();
    ASSERT_EQ(commands.size(), 2u);
    EXPECT_EQ(commands[0], release_of(name));
    EXPECT_EQ(commands[1][1],
              settlement_script(Algorithm::sliding_log, SettlementKind::refund).source);
    EXPECT_EQ(a_.charges()[0].permit, nullptr);
    EXPECT_FALSE(a_.charges()[0].is_charged);
    receive(done);
    EXPECT_TRUE(session_->has_background_commands());
    receive("$1\r\n1\r\n");
}

// Releasing

TEST_F(SessionPermitsTest, AreReleasedInFullWhereRedisDoesNotKnowTheScript) {
    log_in();
    const std::string name = take_permit(a_);
    release(a_);
    sent();
    EXPECT_EQ(receive(noscript), Progress::more);
    EXPECT_EQ(sent(), (Commands{{"EVAL", release_script().source, "1", permit_key, name}}));
    EXPECT_TRUE(session_->has_background_commands());
    receive(done);
}

TEST_F(SessionPermitsTest, AreReleasedAgainWhereRedisReportedAnError) {
    log_in();
    const std::string name = take_permit(a_);
    release(a_);
    sent();
    EXPECT_EQ(receive("-BUSY Redis is busy\r\n"), Progress::more);
    EXPECT_TRUE(session_->has_background_commands());
    EXPECT_EQ(session_->pending(), 0u);
    EXPECT_FALSE(
        session_->takes_background_commands()); // so that a worker that is to leave does not wait
    EXPECT_EQ(sent(), Commands{});
    wait_until(now_ + 10s);
    EXPECT_EQ(sent(), Commands{release_of(name)});
    receive(noscript);
    receive(noscript); // to the whole script too
    EXPECT_EQ(sent().size(), 1u);
    wait_until(now_ + 10s);
    EXPECT_EQ(sent(), Commands{release_of(name)});
    receive(done);
    EXPECT_TRUE(session_->takes_background_commands());
}

TEST_F(SessionPermitsTest, AreReleasedOnceWhileAReleaseIsOnItsWay) {
    SessionSettings settings;
    settings.shapes = {shape_of(Algorithm::concurrency)};
    settings.timeout = 1h; // else the connection would be given up
    start(settings);
    log_in();
    take_permit(a_);
    release(a_);
    EXPECT_EQ(sent().size(), 1u);
    wait_until(now_ + 10min); // beyond its window, too
    EXPECT_EQ(sent(), Commands{});
    EXPECT_TRUE(session_->has_background_commands());
    receive(done);
}

TEST_F(SessionPermitsTest, AreReleasedWhenRedisCanBeReachedAgain) {
    for (const Lost lost : {Lost::in_use, Lost::unreachable}) {
        log_in();
        const std::string name = take_permit(a_);
        session_->disconnected(lost, now_);
        release(a_);
        EXPECT_EQ(sent(), Commands{});
        EXPECT_TRUE(session_->has_background_commands());
        wait_until(now_ + 20s);
        EXPECT_EQ(sent(), Commands{});
        log_in();
        EXPECT_EQ(sent(), Commands{release_of(name)});
        receive(done);
        EXPECT_FALSE(session_->has_background_commands());
    }
}

TEST_F(SessionPermitsTest, AreReleasedAgainWhereTheConnectionBroke) {
    log_in();
    const std::string name = take_permit(a_);
    release(a_);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(sent(), Commands{release_of(name)});
        session_->disconnected(Lost::in_use, now_);
        EXPECT_TRUE(session_->has_background_commands());
        EXPECT_EQ(session_->pending(), 0u);
        log_in();
    }
    receive(done);
}

TEST_F(SessionPermitsTest, AreForgottenWhenRedisHasForgottenThem) {
    log_in();
    take_permit(a_);
    session_->disconnected(Lost::unreachable, now_);
    release(a_);
    wait_until(Time{60'999});
    EXPECT_TRUE(session_->has_background_commands());
    wait_until(Time{71'000}); // a look later
    EXPECT_FALSE(session_->has_background_commands());
    EXPECT_EQ(session_->next_expiry(), std::nullopt);
    log_in();
    EXPECT_EQ(sent(), Commands{});
}

// Destruction: AddressSanitizer tells of what is leaked or freed twice.

TEST_F(SessionPermitsTest, DieInEveryState) {
    log_in();
    Listener waiting, asking, held, renewed, releasing, returning;
    take_permit(renewed);
    wait_until(now_ + 20s); // a renewal is on its way
    ask_for_permit(held);
    receive(std::string(done) + grants);
    take_permit(releasing);
    release(releasing);
    ask_for_permit(asking);
    session_->disconnected(Lost::in_use, now_);
    session_->connected();
    ask_for_permit(waiting);
    release(held);
    SessionSettings settings;
    start(settings);
}

} // namespace
} // namespace redis_client
