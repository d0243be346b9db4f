// The worker that asks Redis, and a Redis that is near or far, without overrides.

#include "limiter/live/live_sync.hpp"

#include "limiter_test.hpp"
#include "live_test.hpp"

#include "redis_client/control/live_store.hpp"

namespace limiter {
namespace {

using namespace std::chrono_literals;
using redis_client::bulk_string;
using redis_client::TestConnection;
using std::chrono::microseconds;
using std::chrono::milliseconds;

class LiveSyncTest : public LimiterTest {
  protected:
    LiveSyncTest() {
        settings.servers.push_back({.host = "192.0.2.1",
                                    .port = 6379,
                                    .addresses = redis_client::literal_address("192.0.2.1", 6379)});
        settings.live_store.emplace("rl:");
        rules_of_zone_ = {&add_rule({"algorithm=fixed_window", "limit=5", "window=60s"})};
        redis_ = redis_client::make_backend(settings, world, log);
        sync_ =
            std::make_unique<LiveSync>(settings, *redis_, zones_, rules_of_zone_, world, live_log_);
    }

    /// Redis answers for so long, each time after the round trip: half of it is the way there.
    void serve(milliseconds time) {
        const milliseconds end = world.now() + time;
        while (world.now() < end) {
            world.pass(look_again);
            for (TestConnection *connection : world.connections()) {
                if (connection->stage() != redis_client::Connection::Stage::connected) {
                    connection->accept();
                }
                const auto commands = connection->sent();
                if (commands.empty()) {
                    continue;
                }
                world.pass(round_trip_ / 2);
                std::string replies;
                for (const auto &command : commands) {
                    replies += reply_to(command);
                }
                world.pass(round_trip_ / 2);
                connection->receive(replies);
            }
        }
    }
    std::string reply_to(const redis_client::WireCommand &command) {
        if (command[0] == "TIME") {
            const int64_t now = redis_time().count();
            return "*2\r\n" + bulk_string(std::to_string(now / 1'000'000)) +
                   bulk_string(std::to_string(now % 1'000'000));
        }
        if (command[0] == "HSET") {
            ++registrations_;
            return registrations_ <= refused_registrations_ ? "-TRYAGAIN of a hash slot\r\n"
                                                            : ":1\r\n";
        }
        if (command[0] == "GET") {
            return head_.empty() ? "$-1\r\n" : bulk_string(head_);
        }
        if (command[0] != "EVAL") {
            return head_.empty() ? ":0\r\n" : ":1\r\n";
        }
        if (command[1].find("ZRANGEBYSCORE") != std::string::npos) { // asks for changes
            return "*6\r\n:1\r\n" + bulk_string(head_) + "$-1\r\n:1\r\n" + bulk_string("K z k") +
                   bulk_string("1 - ban - - 1 - -");
        }
        return "*1\r\n" + bulk_string("0"); // of what forgets what nobody registers any more
    }

    microseconds redis_time() const { return world.precise_now() + ahead_; }
    /// How much this host's idea of Redis's clock is ahead of it.
    microseconds error() const {
        return settings.memory.redis_now(world.precise_now()) - redis_time();
    }

    static constexpr milliseconds look_again{10}; // of serve()
    static constexpr milliseconds near = look_again + 2ms;

    milliseconds round_trip_{2};
    microseconds ahead_ = 5h; // of Redis's clock
    int registrations_ = 0;
    int refused_registrations_ = 0; // the first ones
    std::string head_;              // of the store; empty: there is none
    TestLiveLog live_log_;

  private:
    std::vector<const Zone *> zones_{&zone};
    RuleList rules_of_zone_;
    std::unique_ptr<redis_client::Backend> redis_;
    std::unique_ptr<LiveSync> sync_;
};

TEST_F(LiveSyncTest, RegistersRulesEachMinute) {
    for (const milliseconds round_trip : {2ms, 150ms}) {
        round_trip_ = round_trip;
        serve(62s);
        const int before = registrations_;
        EXPECT_GE(before, 1);
        serve(190s);
        EXPECT_EQ(registrations_ - before, 3) << round_trip.count();
    }
}

TEST_F(LiveSyncTest, RegistersRulesAtANewConnection) {
    for (const milliseconds round_trip : {2ms, 150ms}) {
        round_trip_ = round_trip;
        serve(5s);
        const int before = registrations_;
        world.connections().front()->lose();
        serve(5s);
        EXPECT_EQ(registrations_ - before, 1) << round_trip.count();
    }
}

TEST_F(LiveSyncTest, RegistersRulesAgainAtTheNextPollWhereItCouldNot) {
    refused_registrations_ = 2;
    serve(5s);
    EXPECT_EQ(registrations_, 3);
}

TEST_F(LiveSyncTest, FollowsTheClockOfAFarRedis) {
    constexpr milliseconds far{150};
    round_trip_ = far;
    serve(5s);
    EXPECT_LE(error(), far);
    ahead_ -= 1h; // another server with another clock
    serve(12s);
    EXPECT_LE(error(), far);
    ahead_ += 2h;
    serve(12s);
    EXPECT_GE(error(), -far);
}

// It would be wrong by as much.
TEST_F(LiveSyncTest, TakesNoTimeThatCameLateIfItHasABetterOne) {
    serve(5s);
    EXPECT_LE(error(), near);
    round_trip_ = 900ms;
    serve(5s);
    EXPECT_LE(error(), near);
    serve(12s);
    EXPECT_GT(error(), near) << "but for some seconds only";
    round_trip_ = 2ms;
    serve(2s);
    EXPECT_LE(error(), near);
}

// Other hosts have some seconds to write back what Redis has lost.
TEST_F(LiveSyncTest, SaysThatTheNewestIsLostOnceAndUntilTheNextWrite) {
    using redis_client::LiveTrouble;
    head_ = "7 100 0";
    settings.memory.set_known({.epoch = 7, .version = 200});
    serve(2s);
    EXPECT_EQ(settings.memory.live_trouble(), LiveTrouble::none);
    EXPECT_EQ(settings.memory.known().version, 200U);
    serve(5s);
    EXPECT_EQ(settings.memory.live_trouble(), LiveTrouble::older);
    EXPECT_TRUE(settings.memory.follows_writes());
    serve(30s);
    world.connections().front()->lose();
    serve(5s);
    EXPECT_EQ(live_log_.troubles, std::vector{LiveTrouble::older});
    head_ = "7 101 0";
    serve(3s);
    EXPECT_EQ(live_log_.troubles, (std::vector{LiveTrouble::older, LiveTrouble::none}));
    EXPECT_EQ(settings.memory.known().version, 101U);
}

TEST_F(LiveSyncTest, SaysNothingOfWhatAnotherHostWritesBackSoon) {
    head_ = "7 100 0";
    settings.memory.set_known({.epoch = 7, .version = 200});
    serve(2s);
    head_ = "7 200 0";
    serve(10s);
    EXPECT_TRUE(live_log_.troubles.empty());
    EXPECT_EQ(settings.memory.known().version, 200U);
}

} // namespace
} // namespace limiter
