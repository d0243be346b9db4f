// Permits that are held for longer than a third of their window.

#include "session_permits_test.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace redis_client {
namespace {

TEST_F(SessionPermitsTest, AreRenewedEachThirdOfTheirWindow) {
    log_in();
    const std::string name = take_permit(a_);
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

TEST_F(SessionPermitsTest, AreRenewedAThirdAfterTheSendingOfTheirCheck) {
    SessionSettings settings;
    settings.shapes = {shape_of(Algorithm::concurrency)};
    settings.timeout = 1min;
    start(settings);
    ask_for_permit(a_);
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

TEST_F(SessionPermitsTest, AreNotRenewedOnceTheyAreGivenBack) {
    log_in();
    take_permit(a_);
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

TEST_F(SessionPermitsTest, AreRenewedSixtyFourAtOnce) {
    log_in();
    std::vector<Listener> listeners(130);
    std::vector<std::string> names;
    for (Listener &listener : listeners) {
        names.push_back(take_permit(listener));
    }
    wait_until(now_ + 20s);
    EXPECT_EQ(sent(), (Commands{renewal_of({names.begin(), names.begin() + 64}),
                                renewal_of({names.begin() + 64, names.begin() + 128}),
                                renewal_of({names.begin() + 128, names.end()})}));
    receive("$-1\r\n$-1\r\n$-1\r\n");
    release_all(listeners);
}

TEST_F(SessionPermitsTest, AreRenewedInAFullCommandAndNoEmptyOne) {
    log_in();
    std::vector<Listener> listeners(65);
    for (size_t i = 0; i < 64; ++i) {
        take_permit(listeners[i]);
    }
    now_ += 15s;
    session_->expire(now_);
    take_permit(listeners[64]); // the last one is not due yet
    wait_until(Time{26'000});   // looked at each 10 s
    const Commands commands = sent();
    ASSERT_EQ(commands.size(), 1u);
    EXPECT_EQ(commands[0][2], "64");
    receive(done);
    release_all(listeners);
}

TEST_F(SessionPermitsTest, AreRenewedWhereTheLastOfThemIsNotDue) {
    log_in();
    const std::string name = take_permit(a_);
    now_ += 15s;
    session_->expire(now_);
    take_permit(b_);
    wait_until(Time{26'000});
    EXPECT_EQ(sent(), Commands{renewal_of({name})});
    receive(done);
    release(a_);
    release(b_);
    receive("$-1\r\n$-1\r\n");
}

TEST_F(SessionPermitsTest, AreRenewedAtOnceOnTheNextConnection) {
    log_in();
    const std::string name = take_permit(a_);
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

TEST_F(SessionPermitsTest, AreRenewedSoonWhereRedisReportedAnError) {
    log_in();
    const std::string name = take_permit(a_);
    wait_until(now_ + 20s);
    for (const std::string_view reply :
         {std::string_view("-BUSY Redis is busy\r\n"),
          std::string_view("-OOM command not allowed\r\n"),
          std::string_view("-TRYAGAIN Multiple keys request\r\n"), noscript}) {
        EXPECT_EQ(sent(), Commands{renewal_of({name})});
        EXPECT_EQ(receive(reply), Progress::more);
        EXPECT_EQ(sent(), Commands{}) << "not in a loop";
        EXPECT_EQ(session_->pending(), 0u);
        wait_until(now_ + 999ms);
        EXPECT_EQ(sent(), Commands{});
        wait_until(now_ + 1ms);
    }
    EXPECT_EQ(sent(), Commands{renewal_of({name})});
    receive(done);
    wait_until(now_ + 19'999ms);
    EXPECT_EQ(sent(), Commands{}) << "as it was renewed";
    wait_until(now_ + 1ms);
    EXPECT_EQ(sent(), Commands{renewal_of({name})});
    receive(done);
    release(a_);
    receive(done);
}

TEST_F(SessionPermitsTest, AreRenewedSoonWhereOnlyTheirsWasRefused) {
    log_in();
    std::vector<Listener> listeners(70);
    std::vector<std::string> names;
    for (Listener &listener : listeners) {
        names.push_back(take_permit(listener));
    }
    wait_until(now_ + 20s);
    EXPECT_EQ(sent().size(), 2u);
    receive(std::string(done) + "-BUSY Redis is busy\r\n");
    wait_until(now_ + 1s);
    EXPECT_EQ(sent(), Commands{renewal_of({names.begin() + 64, names.end()})});
    receive(done);
    wait_until(now_ + 10s);
    EXPECT_EQ(sent(), Commands{});
    release_all(listeners);
}

TEST_F(SessionPermitsTest, GiveUpAConnectionThatDoesNotAnswerARenewal) {
    log_in();
    take_permit(a_);
    wait_until(now_ + 20s);
    EXPECT_EQ(session_->next_expiry(), now_ + 1000ms);
    EXPECT_TRUE(session_->expire(now_ + 1000ms));
    session_->disconnected(Lost::unreachable, now_);
    EXPECT_EQ(session_->pending(), 0u);
    EXPECT_TRUE(session_->has_background_commands()); // it is still held
    log_in();
    EXPECT_EQ(sent().size(), 1u);
    receive(done);
    release(a_);
    receive(done);
}

// As behind a proxy to a cluster.
TEST_F(SessionPermitsTest, AreRenewedByKeysWhereRedisTakesThoseOfOneSlotOnly) {
    log_in();
    const std::string name = take_permit(a_);
    ask(b_, {{.quota = quota_of(Algorithm::concurrency), .redis_key = "other"}});
    const std::string of_other = sent().back().back();
    receive(grants);
    for (int round = 0; round < 2; ++round) {
        wait_until(now_ + 20s);
        if (round == 0) {
            EXPECT_EQ(sent().size(), 1u);
            receive("-CROSSSLOT Keys in request don't hash to the same slot\r\n");
        }
        const Commands apart = sent();
        ASSERT_EQ(apart.size(), 2u) << round;
        EXPECT_EQ(apart[0].back(), of_other);
        EXPECT_EQ(apart[1].back(), name);
        receive(std::string(done) + std::string(done));
    }
    release(a_);
    release(b_);
    receive(std::string(done) + std::string(done));
}

} // namespace
} // namespace redis_client
