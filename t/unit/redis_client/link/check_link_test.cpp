// The link for checks to one Redis: connecting, waits between attempts, outages, deadlines, and the
// end of a worker.
#include "unit/redis_client/link/link_test.hpp"

namespace redis_client {
namespace {

constexpr std::string_view here = "10.0.0.1:6379";

class CheckLinkTest : public LinkTest {
  protected:
    void start() {
        serve(Mode::standalone, {"10.0.0.1"});
        backend();
    }
    void start_ready() {
        start();
        log_.ready = 0;
        log_in(redis());
        ASSERT_EQ(log_.ready, 1);
    }
    TestConnection &redis() { return world_.connection_to(here); }
    bool is_connected() { return !world_.connections().empty(); }
    /// Whether the next attempt comes in that time, and not a millisecond earlier.
    void expect_attempt_in(std::chrono::milliseconds wait) {
        world_.pass(wait - 1ms);
        EXPECT_FALSE(is_connected()) << wait.count();
        world_.pass(1ms);
        EXPECT_TRUE(is_connected()) << wait.count();
    }
};

TEST_F(CheckLinkTest, ConnectsAtOnceAndAsks) {
    start();
    EXPECT_EQ(log_.connecting, (Lines{std::string(here)}));
    EXPECT_EQ(redis().host(), "10.0.0.1");
    EXPECT_TRUE(ask(a_, "k")) << "it waits for the connection";
    log_in(redis());
    EXPECT_EQ(redis().sent(), (Commands{evalsha("k")}));
    redis().receive(grant(7));
    EXPECT_EQ(a_.results, (Results{granted(7)}));
    EXPECT_EQ(log_.take(), Lines{});
    EXPECT_EQ(counts().state, rate_limit::BackendState::up);
}

TEST_F(CheckLinkTest, WaitsLongerAndLongerBetweenAttempts) {
    start();
    for (const auto wait : {25ms, 50ms, 100ms, 200ms, 400ms, 500ms, 500ms}) {
        redis().refuse();
        expect_attempt_in(wait);
    }
    EXPECT_EQ(log_.take(), (Lines{"10.0.0.1:6379 fails: connecting failed: Connection refused"}))
        << "an outage is told once";
    EXPECT_EQ(counts().state, rate_limit::BackendState::down);
    EXPECT_FALSE(ask(a_, "k")) << "nobody waits for a Redis that cannot be reached";
}

TEST_F(CheckLinkTest, WaitsAreShortenedByChance) {
    world_.random_number = 25; // of 0 to 25 ms
    start();
    redis().refuse();
    expect_attempt_in(50ms);
}

TEST_F(CheckLinkTest, GivesUpAnAttemptThatTakesTooLong) {
    struct Case {
        std::function<void()> happens;
        std::string_view stage;
    };
    serve(Mode::standalone, {"10.0.0.1"});
    for (const auto &[happens, stage] : std::vector<Case>{
             {[] {}, "connecting"},
             {[&] { redis().shake_hands(); }, "in the TLS handshake"},
             {[&] { redis().accept(); }, "logging in"},
         }) {
        backends_.stop();
        log_.take();
        backend();
        happens();
        world_.pass(settings_.connect_timeout - 1ms);
        EXPECT_TRUE(is_connected()) << stage;
        world_.pass(1ms);
        EXPECT_FALSE(is_connected()) << stage;
        EXPECT_EQ(log_.take(),
                  (Lines{"10.0.0.1:6379 fails: no connection in time: " + std::string(stage)}));
    }
}

TEST_F(CheckLinkTest, EndsAnOutageWhenAllIsQuietForASecond) {
    start();
    redis().refuse();
    world_.pass(25ms);
    log_in(redis());
    EXPECT_EQ(log_.take(), (Lines{"10.0.0.1:6379 fails: connecting failed: Connection refused"}));
    world_.pass(999ms);
    EXPECT_EQ(log_.take(), Lines{});
    world_.pass(1ms);
    EXPECT_EQ(log_.take(), (Lines{"10.0.0.1:6379 works again, 0 ms, 0 checks"}));
}

TEST_F(CheckLinkTest, CountsTheChecksOfAnOutage) {
    start_ready();
    EXPECT_TRUE(ask(a_, "k"));
    EXPECT_TRUE(ask(b_, "l"));
    redis().lose({"the connection broke", {}, ECONNRESET});
    EXPECT_EQ(a_.results, (Results{Failure::connect}));
    EXPECT_EQ(log_.take(), (Lines{"10.0.0.1:6379 fails: the connection broke: Connection reset by "
                                  "peer"}));
    world_.pass(25ms);
    log_in(redis());
    world_.pass(1s);
    EXPECT_EQ(log_.take(), (Lines{"10.0.0.1:6379 works again, 0 ms, 2 checks"}));
}

TEST_F(CheckLinkTest, ReplacesAtOnceAConnectionThatHasServed) {
    start_ready();
    world_.pass(1s);
    redis().lose();
    EXPECT_TRUE(is_connected());
    EXPECT_EQ(log_.take(), Lines{}) << "nobody has used it";
    log_in(redis());
    redis().lose();
    EXPECT_FALSE(is_connected()) << "a connection that breaks at once is not replaced in a loop";
    EXPECT_EQ(log_.take(), (Lines{"10.0.0.1:6379 fails: the connection was closed"}));
}

TEST_F(CheckLinkTest, WaitsLongAfterARefusedLogin) {
    settings_.session.password = "secret";
    start();
    for (const auto wait : {25ms, 50ms, 100ms, 200ms, 400ms, 800ms, 1600ms, 3200ms, 5000ms}) {
        redis().accept();
        redis().receive("-WRONGPASS invalid username-password pair or user is disabled.\r\n");
        expect_attempt_in(wait);
    }
    EXPECT_EQ(log_.take(), (Lines{"10.0.0.1:6379 fails: AUTH: WRONGPASS"}));
}

TEST_F(CheckLinkTest, ReadsOnceBeforeADeadlineCountsAsMissed) {
    start_ready();
    EXPECT_TRUE(ask(a_, "k"));
    redis().arrive(grant(5));
    world_.pass(100ms);
    EXPECT_EQ(a_.results, (Results{granted(5)}));

    EXPECT_TRUE(ask(b_, "l"));
    world_.pass(99ms);
    EXPECT_EQ(b_.results, Results{});
    world_.pass(1ms);
    EXPECT_EQ(b_.results, (Results{Failure::timeout}));
    EXPECT_EQ(log_.take(), (Lines{"10.0.0.1:6379 fails: no answer in time"}));
    EXPECT_TRUE(is_connected()) << "it may only be slow";
    world_.pass(900ms);
    EXPECT_FALSE(is_connected()) << "by now it has been silent for a second";
}

TEST_F(CheckLinkTest, OnlyAVerdictEndsAnOutageOfErrors) {
    start_ready();
    EXPECT_TRUE(ask(a_, "k"));
    redis().receive("-LOADING Redis is loading the dataset in memory\r\n");
    EXPECT_EQ(log_.take(), (Lines{"10.0.0.1:6379 fails: error reply: LOADING Redis is loading the "
                                  "dataset in memory"}));
    world_.pass(5s);
    EXPECT_EQ(log_.take(), Lines{});
    EXPECT_TRUE(ask(a_, "k"));
    redis().receive(grant(5));
    EXPECT_EQ(log_.take(), (Lines{"10.0.0.1:6379 works again, 0 ms, 1 checks"}));
}

TEST_F(CheckLinkTest, LogsClocksThatDifferWhileKeysAreAtFault) {
    start_ready();
    for (const bool is_first : {true, false}) {
        EXPECT_TRUE(ask(a_, "k"));
        redis().receive("-ERR user_script:9: WRONGTYPE Operation against a key script: 0, on "
                        "@user_script:9.\r\n");
        const Lines lines = log_.take();
        EXPECT_EQ(lines.size(), is_first ? 1U : 0U);
        EXPECT_TRUE(ask(b_, "l"));
        redis().receive("-ERR user_script:9: no window that the host knows at 1785585600000000 "
                        "script: 0, on @user_script:9.\r\n");
        const Lines of_clocks = log_.take();
        ASSERT_EQ(of_clocks.size(), is_first ? 1U : 0U);
        if (is_first) {
            EXPECT_NE(of_clocks[0].find("its clock is in no calendar window"), std::string::npos);
        }
        world_.pass(500ms);
    }
}

TEST_F(CheckLinkTest, LeavesAReplicaThatTakesNoSettlement) {
    start_ready();
    settle("k");
    world_.end_turn();
    redis().receive(bulk_string("0READONLY You can't write against a read only replica."));
    EXPECT_FALSE(is_connected());
    EXPECT_EQ(log_.take(), (Lines{"10.0.0.1:6379 fails: error reply: READONLY You can't write "
                                  "against a read only replica."}));
}

TEST_F(CheckLinkTest, TriesTheNextAddressOfANameAtOnce) {
    settings_.has_resolver = world_.has_resolver = true;
    settings_.servers = {{.host = "redis.test", .port = 6379}};
    world_.names["redis.test"] = {literal_address("10.0.0.1", 0).front(),
                                  literal_address("10.0.0.2", 0).front()};
    backend();
    redis().refuse();
    world_.connection_to("10.0.0.2:6379").refuse();
    EXPECT_FALSE(is_connected()) << "both have refused";
    EXPECT_EQ(log_.take(), (Lines{"10.0.0.2:6379 fails: connecting failed: Connection refused"}));
    expect_attempt_in(25ms);
}

TEST_F(CheckLinkTest, KeepsTheAddressesOfANameThatIsNoLongerFound) {
    settings_.has_resolver = world_.has_resolver = true;
    settings_.servers = {{.host = "redis.test", .port = 6379}};
    backend();
    EXPECT_EQ(log_.take(),
              (Lines{"redis.test fails: its name cannot be resolved: Host not found"}));
    world_.names["redis.test"] = literal_address("10.0.0.1", 0);
    world_.pass(25ms);
    EXPECT_EQ(redis().host(), "redis.test") << "whom a certificate must be for";
    world_.names.clear();
    redis().refuse();
    world_.pass(50ms);
    EXPECT_TRUE(is_connected());
}

TEST_F(CheckLinkTest, ASlowNameServerIsHeardInTheEnd) {
    settings_.has_resolver = world_.has_resolver = true;
    settings_.servers = {{.host = "redis.test", .port = 6379}};
    world_.names["redis.test"] = literal_address("10.0.0.1", 0);
    world_.answers_in = 1s;
    backend();
    world_.pass(125ms);
    EXPECT_EQ(log_.take(),
              (Lines{"redis.test fails: its name cannot be resolved: Operation timed out"}));
    world_.pass(400ms);
    EXPECT_EQ(world_.lookups, 1u) << "the next attempts wait for the same answer";
    world_.pass(1500ms);
    EXPECT_TRUE(is_connected()) << "which comes between two of them";
    EXPECT_EQ(world_.lookups, 2u) << "another name server might have answered sooner";
}

TEST_F(CheckLinkTest, AnAnswerThatComesLateIsUsedWhileItIsNew) {
    settings_.has_resolver = world_.has_resolver = true;
    settings_.servers = {{.host = "redis.test", .port = 6379}};
    world_.names["redis.test"] = literal_address("10.0.0.1", 0);
    backend();
    log_in(redis());
    for (const auto age : {4s, 6s}) {
        world_.names["redis.test"] = literal_address("10.0.0.2", 0);
        world_.answers_in = 300ms;
        world_.connections().front()->lose();
        world_.pass(200ms); // the next attempt goes to the old address
        ASSERT_TRUE(is_connected());
        log_in(*world_.connections().front());
        world_.pass(200ms);
        world_.answers_in = 0ms;
        world_.names["redis.test"] = literal_address("10.0.0.3", 0);
        world_.pass(age);
        world_.connections().front()->lose();
        world_.pass(1ms);
        ASSERT_TRUE(is_connected());
        EXPECT_EQ(world_.connections().front()->address(),
                  age == 4s ? "10.0.0.2:6379" : "10.0.0.3:6379");
        log_in(*world_.connections().front());
    }
}

TEST_F(CheckLinkTest, NamesNeedAResolver) {
    settings_.servers = {{.host = "redis.test", .port = 6379}};
    backend();
    EXPECT_EQ(log_.take(),
              (Lines{"redis.test fails: no resolver is configured for its name: redis.test"}));
}

TEST_F(CheckLinkTest, LetsAWorkerEndThatNeedsNothing) {
    start_ready();
    EXPECT_TRUE(redis().is_idle());
    world_.is_worker_leaving = true;
    redis().dismiss();
    world_.pass(1min);
    EXPECT_FALSE(is_connected());
    EXPECT_FALSE(world_.is_worker_held());
    EXPECT_EQ(log_.take(), Lines{});
    EXPECT_TRUE(ask(a_, "k")) << "a request that is still under way";
    EXPECT_TRUE(is_connected());
}

TEST_F(CheckLinkTest, HoldsAWorkerForACheckThatWaits) {
    start_ready();
    EXPECT_TRUE(ask(a_, "k"));
    EXPECT_FALSE(redis().is_idle());
    world_.is_worker_leaving = true;
    EXPECT_TRUE(world_.is_worker_held());
    redis().receive(grant(3));
    EXPECT_EQ(a_.results, (Results{granted(3)}));
    EXPECT_FALSE(world_.is_worker_held()) << "it was the last answer";
    world_.pass(999ms);
    EXPECT_TRUE(is_connected()) << "for another request that ends";
    world_.pass(1ms);
    EXPECT_FALSE(is_connected());
    EXPECT_EQ(log_.take(), Lines{});
}

TEST_F(CheckLinkTest, OpensOneConnectionForAllThatALeavingWorkerSettles) {
    start_ready();
    world_.is_worker_leaving = true;
    redis().dismiss();
    const size_t before = world_.opened();
    for (int i = 0; i < 100; ++i) {
        settle("k");
        world_.end_turn();
        if (i == 0) {
            log_in(redis());
        }
        EXPECT_EQ(redis().sent().size(), 1u);
        redis().receive("$1\r\n1\r\n");
        EXPECT_FALSE(world_.is_worker_held());
        world_.pass(5ms);
    }
    EXPECT_EQ(charged(), 100u);
    EXPECT_EQ(world_.opened(), before + 1);
}

TEST_F(CheckLinkTest, HoldsAWorkerForWhatIsSettledAfterItsConnectionIsClosed) {
    const std::vector<std::function<void()>> ways = {
        [&] { settle("k"); },
        [&] {
            backend().refund(a_.charges()); // another rule denies
        },
    };
    for (const auto &settle_now : ways) {
        backends_.stop();
        settings_.servers.clear();
        start_ready();
        EXPECT_TRUE(ask(a_, "k"));
        redis().receive(grant(3));
        world_.pass(1s); // the check has left no deadline behind
        world_.is_worker_leaving = true;
        redis().dismiss();
        EXPECT_FALSE(is_connected());
        EXPECT_FALSE(world_.is_worker_held());

        settle_now();
        EXPECT_TRUE(world_.is_worker_held()) << "it connects";
        world_.end_turn();
        log_in(redis());
        EXPECT_EQ(redis().sent().size(), 1u);
        EXPECT_TRUE(world_.is_worker_held()) << "it waits for the answer";
        redis().receive("$1\r\n1\r\n");
        world_.pass(1s);
        EXPECT_FALSE(is_connected());
        EXPECT_FALSE(world_.is_worker_held());
        world_.is_worker_leaving = false;
    }
    EXPECT_EQ(charged(), 1u);
}

TEST_F(CheckLinkTest, HoldsAWorkerForSettlementsUntilTheNextAttemptToConnect) {
    start_ready();
    settle("lost");
    world_.end_turn();
    redis().lose();
    settle("kept");
    world_.is_worker_leaving = true;
    EXPECT_TRUE(world_.is_worker_held());
    expect_attempt_in(25ms);
    EXPECT_TRUE(world_.is_worker_held());
    log_in(redis());
    redis().receive("$1\r\n1\r\n");
    EXPECT_FALSE(world_.is_worker_held());
    EXPECT_EQ(charged(), 1u);
}

TEST_F(CheckLinkTest, HoldsNoWorkerForARedisThatIsAway) {
    const std::vector<std::function<void()>> faults = {
        [&] { redis().refuse(); },
        [&] {
            world_.pass(settings_.connect_timeout - 1ms);
            EXPECT_TRUE(world_.is_worker_held()) << "it may only be slow";
            world_.pass(1ms);
        },
    };
    for (const auto &be_away : faults) {
        backends_.stop();
        settings_.servers.clear();
        start_ready();
        world_.pass(1s);
        world_.is_worker_leaving = true;
        redis().dismiss();
        settle("k");
        world_.end_turn();
        be_away();
        EXPECT_FALSE(world_.is_worker_held());
        world_.pass(50ms);
        EXPECT_FALSE(world_.is_worker_held()) << "though it tries again";
        world_.is_worker_leaving = false;
    }
}

TEST_F(CheckLinkTest, OpensOneConnectionForWhatAsksWhileAnotherOneIsDismissed) {
    start_ready();
    a_.react = [&] { settle("k"); };
    EXPECT_TRUE(ask(a_, "k"));
    world_.is_worker_leaving = true;
    const size_t before = world_.opened();
    redis().dismiss(); // because the worker has left for too long
    EXPECT_EQ(a_.results, (Results{Failure::connect}));
    world_.end_turn();
    EXPECT_EQ(world_.opened(), before + 1);
    EXPECT_EQ(log_.take(), Lines{});
    log_in(redis());
    EXPECT_EQ(redis().sent().size(), 1u);
    redis().receive("$1\r\n1\r\n");
    EXPECT_EQ(charged(), 1u);
}

TEST_F(CheckLinkTest, OpensOneConnectionForAllThatALeavingWorkerIsRefused) {
    settings_.session.max_pending = 0;
    start_ready();
    world_.is_worker_leaving = true;
    redis().dismiss();
    const size_t before = world_.opened();
    for (int i = 0; i < 100; ++i) {
        EXPECT_FALSE(ask(a_, "k"));
    }
    EXPECT_EQ(world_.opened(), before + 1);
}

// A leaving worker tries to connect when it is asked, and not by itself.
TEST_F(CheckLinkTest, ALeavingWorkerAsksARedisThatIsThereAgain) {
    start();
    world_.is_worker_leaving = true;
    redis().refuse();
    world_.pass(1min);
    EXPECT_FALSE(is_connected());
    EXPECT_FALSE(ask(a_, "k"));
    ASSERT_TRUE(is_connected());
    log_in(redis());
    EXPECT_TRUE(ask(a_, "k"));
    redis().receive(grant(1));
    EXPECT_EQ(a_.results, (Results{granted(1)}));
}

TEST_F(CheckLinkTest, FailsTheChecksOfABackendThatEnds) {
    start();
    EXPECT_TRUE(ask(a_, "k"));
    backends_.stop();
    EXPECT_EQ(a_.results, (Results{Failure::connect}));
}

TEST_F(CheckLinkTest, OpensNoConnectionForWhatIsSettledWhenItEnds) {
    start();
    redis().refuse();
    world_.pass(25ms);
    log_in(redis());
    Backend &ending = backend();
    a_.react = [&] { settle(ending, "k"); };
    EXPECT_TRUE(ask(a_, "k"));
    const size_t before = world_.opened();
    backends_.stop();
    EXPECT_EQ(a_.results, (Results{Failure::connect}));
    EXPECT_EQ(world_.opened(), before);
    EXPECT_TRUE(world_.connections().empty());
    EXPECT_EQ(rule_counters_.read().of(rate_limit::RuleCounter::settlements_lost), 1u);
}

// The one that it is settled at may have ended before the one whose check fails.
TEST_F(CheckLinkTest, WhatIsSettledWhileAllBackendsEndIsLost) {
    BackendSettings of_first = settings_;
    settings_.index = 1; // the last one to end
    start();
    a_.react = [&] {
        Charge charge;
        charge.quota = quota_of(Algorithm::sliding_log);
        charge.redis_key = "k";
        backends_.settle(of_first, {.kind = SettlementKind::debt,
                                    .charge = charge,
                                    .aligned = false,
                                    .counters = &rule_counters_});
    };
    EXPECT_TRUE(ask(a_, "k"));
    of_first.servers = settings_.servers;
    backends_.of(of_first);
    const size_t before = world_.opened();
    backends_.stop();
    EXPECT_EQ(a_.results, (Results{Failure::connect}));
    EXPECT_EQ(world_.opened(), before) << "nobody connects for it";
    EXPECT_EQ(rule_counters_.read().of(rate_limit::RuleCounter::settlements_lost), 1u);
}

} // namespace
} // namespace redis_client
