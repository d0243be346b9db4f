// Checks of several rules, and what is given back.

#include "session_test.hpp"

#include <string>
#include <vector>

namespace redis_client {
namespace {

const std::string window_key = "rl:{z:a}:fixed_window:60000";

Asked window(bool dry_run = false) {
    return {
        .quota = quota_of(Algorithm::fixed_window), .redis_key = window_key, .dry_run = dry_run};
}

const std::vector<Asked> log_and_window = {asked("a"), window()};

/// The replies of a log with 99 left and of a window with 40 left, and of both where they are full.
std::string replies(bool log_grants, bool window_grants) {
    return answer({log_grants ? 99 : -1, 0, 0, log_grants ? 0 : 3, //
                   window_grants ? 40 : -1, 7'000'000});
}

WireCommand check_of_both(const std::string &how, const std::string &a_script) {
    return {how,        a_script, "2", "rl:{z:a}:sliding_log:60000",
            window_key, "100",    "1", "60000000",
            "72501",    "100",    "1", "60000000",
            "65001",    "first"};
}

using SessionChargesTest = SessionTest;

TEST_F(SessionChargesTest, AskForAllRulesInOneCommand) {
    log_in();
    ask(a_, log_and_window);
    const Script both = check_script(shape_of(log_and_window));
    EXPECT_EQ(sent(), Commands{check_of_both("EVALSHA", both.sha1)});
    receive(replies(true, true));
}

TEST_F(SessionChargesTest, AreAllMadeWhereAllGrant) {
    log_in();
    ask(a_, log_and_window);
    EXPECT_EQ(receive(replies(true, true)), Progress::more);
    EXPECT_EQ(a_.results, Results{granted(99)});
    EXPECT_TRUE(a_.charges()[0].is_charged);
    EXPECT_TRUE(a_.charges()[1].is_charged);
    EXPECT_EQ(a_.charges()[1].verdict.remaining, 40u);
    EXPECT_EQ(a_.charges()[1].receipt, time_of_redis);
    EXPECT_EQ(a_.charges()[0].permit, nullptr);
}

TEST_F(SessionChargesTest, AreNotMadeWhereOneDenies) {
    log_in();
    ask(a_, log_and_window);
    ask(b_, log_and_window);
    receive(replies(true, false) + replies(false, true));
    EXPECT_EQ(a_.charges()[0].verdict.decision, Decision::granted);
    EXPECT_EQ(a_.charges()[0].verdict.remaining, 100u);
    EXPECT_EQ(a_.charges()[1].verdict.decision, Decision::denied);
    EXPECT_EQ(a_.charges()[1].verdict.retry_after, 7s);
    EXPECT_EQ(b_.charges()[0].verdict.decision, Decision::denied);
    EXPECT_EQ(b_.charges()[1].verdict.decision, Decision::granted);
    for (const Listener *listener : {&a_, &b_}) {
        EXPECT_FALSE(listener->all_charges[0][0].is_charged);
        EXPECT_FALSE(listener->all_charges[0][1].is_charged);
    }
    EXPECT_EQ(session_->counters().verdicts, 2u);
}

TEST_F(SessionChargesTest, AreMadeWhereOnlyARuleOnTrialDenies) {
    log_in();
    const std::vector<Asked> all = {asked("a"), window(true)};
    ask(a_, all);
    EXPECT_EQ(sent(), Commands{check_of_both("EVALSHA", check_script(shape_of(all)).sha1)});
    receive(replies(true, false));
    EXPECT_TRUE(a_.charges()[0].is_charged);
    EXPECT_FALSE(a_.charges()[1].is_charged);
    EXPECT_EQ(a_.charges()[1].verdict.decision, Decision::denied);
}

TEST_F(SessionChargesTest, AreMadeOfARuleOnTrialThatGrantsWithTheOthers) {
    log_in();
    ask(a_, {asked("a"), window(true)});
    ask(b_, {asked("a"), window(true)});
    receive(replies(true, true) + replies(false, true));
    EXPECT_TRUE(a_.charges()[1].is_charged);
    EXPECT_FALSE(b_.charges()[1].is_charged);
}

TEST_F(SessionChargesTest, MayBeOfTheMostRulesThereAre) {
    log_in();
    const std::vector<Asked> all(most_rules, asked("a"));
    ask(a_, all);
    const WireCommand command =
        sent()[0]; // of the script for any rules, for no other has this shape
    EXPECT_EQ(command.size(), 3 + most_rules + 1 + most_rules * 4);
    EXPECT_EQ(command[1], any_rules_script(Blocks::no).sha1);
    EXPECT_EQ(command[3 + most_rules], std::string(most_rules, 'l'));
    std::vector<int64_t> numbers;
    for (size_t i = 0; i < most_rules; ++i) {
        numbers.insert(numbers.end(), {static_cast<int64_t>(99 - i), 0, 0, 0});
    }
    EXPECT_EQ(receive(answer(numbers)), Progress::more);
    for (size_t i = 0; i < most_rules; ++i) {
        EXPECT_TRUE(a_.charges()[i].is_charged);
        EXPECT_EQ(a_.charges()[i].verdict.remaining, 99 - i);
    }
}

TEST_F(SessionChargesTest, GoAloneWhereTheirShapeHasNoScriptOfItsOwn) {
    log_in();
    const std::vector<Asked> three = {asked("a"), asked("a"), window(true)};
    ask(a_, three);
    ask(b_, three);
    const Commands commands = sent();
    ASSERT_EQ(commands.size(), 2u);
    EXPECT_EQ(commands[0], commands[1]);
    EXPECT_EQ(commands[0][1], any_rules_script(Blocks::no).sha1);
    EXPECT_EQ(commands[0][6], "llF");
    receive(noscript);
    EXPECT_EQ(sent()[0][1], any_rules_script(Blocks::no).source);
    receive(noscript);
    sent();
    receive(answer({98, 0, 0, 0, 97, 0, 0, 0, 99, 1}) + answer({96, 0, 0, 0, 95, 0, 0, 0, 98, 1}));
    EXPECT_EQ(a_.charges()[1].verdict.remaining, 97u);
    EXPECT_EQ(b_.charges()[2].verdict.remaining, 98u);
}

TEST_F(SessionChargesTest, AreLoadedForTheShapesOfMostChecks) {
    SessionSettings settings = default_settings();
    settings.shapes.push_back(shape_of(log_and_window));
    start(settings);
    session_->connected();
    EXPECT_EQ(sent(),
              (Commands{{"SCRIPT", "LOAD", script().source},
                        {"SCRIPT", "LOAD", script_of_runs().source},
                        {"SCRIPT", "LOAD", check_script(shape_of(log_and_window)).source},
                        {"SCRIPT", "LOAD", batch_script(shape_of(log_and_window)).source}}));
    EXPECT_EQ(receive(loaded), Progress::more);
    EXPECT_EQ(receive(loaded), Progress::ready);
}

TEST_F(SessionChargesTest, ComeAlongWithTheirScriptWhereRedisDoesNotKnowIt) {
    log_in(); // which has loaded the log's alone
    ask(a_, log_and_window);
    sent();
    receive(noscript);
    const Script both = check_script(shape_of(log_and_window));
    EXPECT_EQ(sent(), Commands{check_of_both("EVAL", both.source)});
    receive(replies(true, true));
    EXPECT_TRUE(a_.charges()[1].is_charged);

    ask(a_, log_and_window); // Redis knows it now
    EXPECT_EQ(sent(), Commands{check_of_both("EVALSHA", both.sha1)});
    receive(replies(true, true));
}

TEST_F(SessionChargesTest, AreNotMadeByAnAnswerOfTheWrongSize) {
    for (const std::string &reply : {grant(99), answer({40, 7'000'000}), answer({99, 0, 0, 0, 40}),
                                     answer({99, 0, 0, 0, 40, 7'000'000, 0})}) {
        log_in();
        Listener listener;
        ask(listener, log_and_window);
        EXPECT_EQ(receive(reply), Progress::broken);
        session_->disconnected(Lost::in_use, now_);
        EXPECT_EQ(listener.results, Results{Failure::connect});
        EXPECT_FALSE(listener.charges()[0].is_charged);
        EXPECT_FALSE(listener.charges()[1].is_charged);
    }
}

TEST_F(SessionChargesTest, AreNotMadeByAnAnswerThatIsWrongForOneOfThem) {
    log_in();
    ask(a_, log_and_window);
    sent();
    EXPECT_EQ(receive(answer({99, 0, 0, 0, 100, 1})), Progress::more);
    EXPECT_EQ(a_.results, Results{Failure::reply});
    EXPECT_EQ(session_->counters().check_failures, 1u);
    session_->refund(a_.charges(), now_);
    EXPECT_FALSE(a_.charges()[0].is_charged);
    EXPECT_EQ(sent(), Commands{});
}

TEST_F(SessionChargesTest, OfATimedOutCheckAreLeftAlone) {
    log_in();
    ask(a_, log_and_window);
    session_->expire(now_ + 100ms);
    a_.charges().clear(); // their memory is gone
    a_.charges().shrink_to_fit();
    EXPECT_EQ(receive(answer({40, 7'000'000})), Progress::broken); // but for the size of its answer
    session_->disconnected(Lost::in_use, now_);
}

TEST_F(SessionChargesTest, OfAnAbandonedCheckAreLeftAlone) {
    log_in();
    session_->forget(*ask(a_, log_and_window), now_);
    a_.charges().clear();
    a_.charges().shrink_to_fit();
    EXPECT_EQ(receive(replies(true, true)), Progress::more);
    EXPECT_EQ(a_.results, Results{});
}

TEST_F(SessionChargesTest, BelongToOneCheckAfterAnother) {
    log_in();
    ask(a_, log_and_window);
    receive(replies(true, true));
    std::vector<Charge> &charges = a_.charges();
    EXPECT_TRUE(charges[0].is_charged);
    session_->ask(charges, a_, now_);
    EXPECT_FALSE(charges[0].is_charged); // no more
    receive("-ERR no\r\n");
    EXPECT_FALSE(charges[0].is_charged);
}

// Refunds

/// To a refund.
constexpr std::string_view refunded = "$1\r\n1\r\n";

struct Refunded {
    Quota quota;
    std::vector<int64_t> numbers; // that grant
    WireCommand arguments;        // of its refund
};

const std::vector<Refunded> of_all_algorithms = {
    {quota_of(Algorithm::fixed_window, 3), {40, 7'000'000}, {"3", "60000000", "1700000000000000"}},
    {quota_of(Algorithm::sliding_log, 3),
     {40, 0, 60'000'000, 0},
     {"3", "60000000", "1700000000000000"}},
    {quota_of(Algorithm::sliding_window, 3),
     {1, 2, 15'000'000},
     {"3", "60000000", "1700000000000000"}},
    {quota_of(Algorithm::token_bucket, 3),
     {1'800'000, 0, 0},
     {"1800000", "0", "4294967396", "1700000001800000", "1700000000000000", "1700000001800000",
      "60000000"}},
    {{.algorithm = Algorithm::gcra, .window = 1s, .limit = 3, .burst = 2, .cost = 2},
     {666'666, 2, 0},
     {"666666", "2", "4294967299", "1700000000666666", "1700000000000000", "1700000000666667",
      "1000000"}},
    {{.algorithm = Algorithm::leaky_bucket, .window = 1s, .limit = 3, .burst = 2, .cost = 2},
     {666'666, 2, 0},
     {"666666", "2", "4294967299", "1700000000666666", "1700000000000000", "1700000000666667",
      "1000000"}},
};

TEST_F(SessionChargesTest, AreRefundedByTheScriptOfTheirAlgorithm) {
    log_in();
    for (const auto &[quota, numbers, arguments] : of_all_algorithms) {
        ask(a_, {{.quota = quota, .redis_key = "key"}});
        receive(answer(numbers));
        ASSERT_TRUE(a_.charges()[0].is_charged);
        sent();
        EXPECT_FALSE(session_->has_background_commands());
        session_->refund(a_.charges(), now_);
        EXPECT_FALSE(a_.charges()[0].is_charged);

        WireCommand expected = {
            "EVAL", settlement_script(quota.algorithm, SettlementKind::refund).source, "1", "key"};
        if (rate_limit::is_bucket(quota.algorithm)) {
            expected[2] = "2";
            expected.emplace_back("key#past");
        }
        expected.insert(expected.end(), arguments.begin(), arguments.end());
        EXPECT_EQ(sent(), Commands{expected});
        EXPECT_TRUE(session_->has_background_commands());
        EXPECT_EQ(receive(refunded), Progress::more);
        EXPECT_FALSE(session_->has_background_commands());
        EXPECT_EQ(session_->pending(), 0u);
    }
}

TEST_F(SessionChargesTest, AreRefundedOnce) {
    log_in();
    ask(a_, log_and_window);
    receive(replies(true, true));
    sent();
    session_->refund(a_.charges(), now_);
    EXPECT_EQ(sent().size(), 2u);
    session_->refund(a_.charges(), now_);
    EXPECT_EQ(sent(), Commands{});
    receive(std::string(refunded) + std::string(refunded));
    EXPECT_EQ(session_->pending(), 0u);
}

TEST_F(SessionChargesTest, AreRefundedWithoutAWord) {
    log_in();
    ask(a_, log_and_window);
    receive(replies(true, true));
    session_->refund(a_.charges(), now_);
    EXPECT_EQ(receive(":1\r\n"), Progress::broken);
    session_->disconnected(Lost::unreachable, now_);
}

TEST_F(SessionChargesTest, AreNotRefundedWhereTheyWereNotMade) {
    log_in();
    ask(a_, log_and_window);
    ask(b_, {asked("a"), window(true)});
    ask(c_, log_and_window);
    receive(replies(true, false) + replies(true, false) + "-ERR no\r\n");
    sent();
    session_->refund(a_.charges(), now_);
    session_->refund(c_.charges(), now_);
    EXPECT_EQ(sent(), Commands{});
    session_->refund(b_.charges(), now_); // of which the real one was
    const Commands commands = sent();
    ASSERT_EQ(commands.size(), 1u);
    EXPECT_EQ(commands[0][3], "rl:{z:a}:sliding_log:60000");
    receive(refunded);
}

TEST_F(SessionChargesTest, AreNotRefundedWhereTheyTookNothing) {
    log_in();
    ask(a_, {{.quota = quota_of(Algorithm::fixed_window, 0), .redis_key = "key"}});
    receive(answer({40, 7'000'000}));
    sent();
    session_->refund(a_.charges(), now_);
    EXPECT_EQ(sent(), Commands{});
    EXPECT_FALSE(session_->has_background_commands());
}

TEST_F(SessionChargesTest, AreRefundedAsSoonAsThereIsAConnection) {
    log_in();
    ask(a_, log_and_window);
    receive(replies(true, true));
    session_->disconnected(Lost::in_use, now_);
    session_->refund(a_.charges(), now_);
    EXPECT_TRUE(session_->has_background_commands());
    log_in();
    EXPECT_EQ(sent().size(), 2u);
    receive(std::string(refunded) + std::string(refunded));
    EXPECT_FALSE(session_->has_background_commands());
}

TEST_F(SessionChargesTest, AreRefundedOnceThoughTheConnectionIsLost) {
    log_in();
    ask(a_, log_and_window);
    receive(replies(true, true));
    session_->refund(a_.charges(), now_);
    flush();
    EXPECT_TRUE(session_->has_background_commands());
    session_->disconnected(Lost::in_use, now_);
    EXPECT_FALSE(session_->has_background_commands());
    EXPECT_EQ(session_->pending(), 0u);
    log_in();
    EXPECT_EQ(sent(), Commands{});
}

TEST_F(SessionChargesTest, AreRefundedThoughAnErrorIsTheReply) {
    log_in();
    ask(a_, log_and_window);
    receive(replies(true, true));
    session_->refund(a_.charges(), now_);
    ask(b_, "b");
    EXPECT_EQ(receive(grant(2) + "-BUSY Redis is busy\r\n" + std::string(noscript)),
              Progress::more);
    EXPECT_EQ(b_.results, Results{granted(2)});
    EXPECT_FALSE(session_->has_background_commands());
    EXPECT_EQ(session_->counters().failures, 0u); // of checks
}

TEST_F(SessionChargesTest, AreRefundedAfterTheChecksOfTheTurn) {
    log_in();
    ask(a_, log_and_window);
    receive(replies(true, true));
    sent();
    ask(b_, "b");
    session_->refund(a_.charges(), now_);
    ask(c_, "c");
    const Commands commands = sent();
    ASSERT_EQ(commands.size(), 4u);
    EXPECT_EQ(commands[0], evalsha("b"));
    EXPECT_EQ(commands[1], evalsha("c"));
    receive(grant(2) + grant(3) + std::string(refunded) + std::string(refunded));
    EXPECT_EQ(b_.results, Results{granted(2)});
    EXPECT_EQ(c_.results, Results{granted(3)});
}

TEST_F(SessionChargesTest, AreRefundedOnASilentConnectionUntilItIsGivenUp) {
    log_in();
    ask(a_, log_and_window);
    receive(replies(true, true));
    session_->refund(a_.charges(), now_);
    flush();
    EXPECT_FALSE(session_->expire(now_ + 999ms));
    EXPECT_TRUE(session_->expire(now_ + 1000ms));
    session_->disconnected(Lost::unreachable, now_);
    EXPECT_FALSE(session_->has_background_commands());
}

} // namespace
} // namespace redis_client
