// A master that Sentinels name: which Sentinel is asked, and what happens when the master moves.
#include "unit/redis_client/link/link_test.hpp"

namespace redis_client {
namespace {

const std::string subscribed =
    list({bulk_string("subscribe"), bulk_string("+switch-master"), number(1)});

std::string master_at(std::string_view host) {
    return list({bulk_string(host), bulk_string("6379")}) + subscribed;
}

std::string moved_to(std::string_view host) {
    return list({bulk_string("message"), bulk_string("+switch-master"),
                 bulk_string("m 10.0.0.1 6379 " + std::string(host) + " 6379")});
}

class SentinelMasterTest : public LinkTest {
  protected:
    void start() {
        serve(Mode::sentinel, {"10.1.0.1", "10.1.0.2"});
        settings_.sentinel.master_name = "m";
        settings_.session.needs_master = false; // or logins are longer
        backend();
    }
    void start_ready() {
        start();
        sentinel(1).accept();
        sentinel(1).receive(master_at("10.0.0.1"));
        log_in(redis(1));
    }
    TestConnection &sentinel(int i) {
        return world_.connection_to("10.1.0." + std::to_string(i) + ":6379");
    }
    TestConnection &redis(int i) {
        return world_.connection_to("10.0.0." + std::to_string(i) + ":6379");
    }
};

TEST_F(SentinelMasterTest, ASentinelTellsWhereTheMasterIs) {
    start();
    sentinel(1).accept();
    EXPECT_EQ(sentinel(1).sent(), (Commands{{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m"},
                                            {"SUBSCRIBE", "+switch-master"}}));
    sentinel(1).receive(master_at("10.0.0.1"));
    EXPECT_TRUE(sentinel(1).is_idle()) << "it is heard, but needs no worker";
    log_in(redis(1));
    EXPECT_TRUE(ask(a_, "k"));
    redis(1).receive(grant(1));
    EXPECT_EQ(a_.results, (Results{granted(1)}));
}

TEST_F(SentinelMasterTest, EachSentinelIsAskedOnce) {
    start();
    sentinel(1).refuse();
    EXPECT_EQ(log_.take(), Lines{});
    sentinel(2).accept();
    sentinel(2).receive("*-1\r\n");
    EXPECT_EQ(log_.take(), (Lines{"10.1.0.1:6379 fails: no Sentinel tells where the master is: it "
                                  "knows no master of that name"}));
    EXPECT_TRUE(world_.connections().empty());
    world_.pass(25ms);
    sentinel(1).accept();
    sentinel(1).receive(master_at("10.0.0.1"));
    log_in(redis(1));
    world_.pass(1s);
    EXPECT_EQ(log_.take().size(), 1u) << "works again";
}

TEST_F(SentinelMasterTest, FollowsAMasterThatHasMoved) {
    start_ready();
    EXPECT_TRUE(ask(a_, "k"));
    sentinel(1).receive(moved_to("10.0.0.2"));
    EXPECT_EQ(a_.results, (Results{Failure::connect})) << "nobody knows whether it has an answer";
    EXPECT_EQ(log_.take(), (Lines{"10.0.0.1:6379 fails: the master has moved"}));
    EXPECT_TRUE(ask(b_, "l")) << "the new one is expected";
    log_in(redis(2));
    EXPECT_EQ(redis(2).sent(), (Commands{evalsha("l")}));
}

TEST_F(SentinelMasterTest, WhatIsSettledWhileTheMasterMovesGoesToTheNewOneOnce) {
    start_ready();
    a_.react = [&] { settle("k"); };
    EXPECT_TRUE(ask(a_, "k"));
    const size_t before = world_.opened();
    sentinel(1).receive(moved_to("10.0.0.2"));
    EXPECT_EQ(a_.results, (Results{Failure::connect}));
    EXPECT_EQ(world_.opened(), before + 1) << "the Sentinel has said where it is";
    log_in(redis(2));
    EXPECT_EQ(redis(2).sent().size(), 1u);
    redis(2).receive("$1\r\n1\r\n");
    EXPECT_EQ(charged(), 1u);
    EXPECT_EQ(log_.take(), (Lines{"10.0.0.1:6379 fails: the master has moved"}));
}

TEST_F(SentinelMasterTest, TheSameMasterIsNoNews) {
    start_ready();
    const size_t before = world_.opened();
    sentinel(1).receive(moved_to("10.0.0.1"));
    EXPECT_EQ(world_.opened(), before);
}

TEST_F(SentinelMasterTest, ALostSentinelIsFollowedByTheNext) {
    start_ready();
    sentinel(1).lose();
    world_.pass(999ms);
    EXPECT_EQ(world_.connections().size(), 1u);
    world_.pass(1ms);
    sentinel(2).accept();
    sentinel(2).receive(master_at("10.0.0.2"));
    log_in(redis(2));
    EXPECT_EQ(log_.take(), Lines{}) << "no check was under way";
}

TEST_F(SentinelMasterTest, AfterALossTheSentinelsAreAskedAnew) {
    start_ready();
    redis(1).lose();
    world_.pass(25ms);
    sentinel(2).accept();
    sentinel(2).receive(master_at("10.0.0.2"));
    log_in(redis(2));
}

constexpr std::string_view wrong_password =
    "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

TEST_F(SentinelMasterTest, SentinelsThatRefuseAreAskedLessAndLessOften) {
    settings_.sentinel.password = "secret";
    start();
    for (const auto wait :
         {25ms, 50ms, 100ms, 200ms, 400ms, 800ms, 1600ms, 3200ms, 5000ms, 5000ms}) {
        for (int i = 0; i < 2; ++i) { // one after the other, whoever is first
            ASSERT_EQ(world_.connections().size(), 1u);
            world_.connections().front()->accept();
            world_.connections().front()->receive(wrong_password);
        }
        world_.pass(wait - 1ms);
        EXPECT_TRUE(world_.connections().empty()) << wait.count();
        world_.pass(1ms);
        EXPECT_EQ(world_.connections().size(), 1u) << wait.count();
    }
    EXPECT_EQ(log_.take(), (Lines{"10.1.0.1:6379 fails: no Sentinel tells where the master is: "
                                  "WRONGPASS"}));
}

TEST_F(SentinelMasterTest, OneThatDoesNotRefuseIsAskedAsOftenAsBefore) {
    settings_.sentinel.password = "secret";
    start();
    for (const auto wait : {25ms, 50ms, 100ms, 200ms, 400ms, 500ms, 500ms, 500ms}) {
        ASSERT_EQ(world_.connections().size(), 1u);
        TestConnection &first = *world_.connections().front();
        if (first.address() == "10.1.0.1:6379") {
            first.refuse();
            sentinel(2).accept();
            sentinel(2).receive(wrong_password);
        } else {
            first.accept();
            first.receive(wrong_password);
            sentinel(1).refuse();
        }
        EXPECT_TRUE(world_.connections().empty());
        world_.pass(wait);
    }
}

TEST_F(SentinelMasterTest, ASubscriptionThatIsRefusedIsTriedLessAndLessOften) {
    start_ready();
    const std::string address = list({bulk_string("10.0.0.1"), bulk_string("6379")});
    sentinel(1).receive("-NOPERM no permissions to access the channel\r\n");
    size_t tries = 0;
    for (int tenths = 0; tenths < 600; ++tenths) {
        world_.pass(100ms);
        for (TestConnection *one : world_.connections()) {
            if (one->address().starts_with("10.1.")) {
                one->accept();
                one->receive(address);
                one->receive("-NOPERM no permissions to access the channel\r\n");
                ++tries;
            }
        }
    }
    EXPECT_GT(tries, 10u);
    EXPECT_LT(tries, 20u);
    EXPECT_EQ(log_.take(), Lines{}) << "checks have their verdicts";
}

TEST_F(SentinelMasterTest, DismissedSentinelsStayAway) {
    start_ready();
    world_.is_worker_leaving = true;
    sentinel(1).dismiss();
    redis(1).dismiss();
    world_.pass(1min);
    EXPECT_TRUE(world_.connections().empty());
}

} // namespace
} // namespace redis_client
