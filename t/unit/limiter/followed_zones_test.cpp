// A zone that has no room for all overrides.

#include "limiter/live/followed_zones.hpp"

#include "limiter_test.hpp"
#include "live_test.hpp"

namespace limiter {
namespace {

using namespace std::chrono_literals;
using redis_client::LiveChange;

class FollowedZonesTest : public LimiterTest {
  protected:
    void begin() {
        followed_.on_begin(redis_client::LiveReading::of_store);
        EXPECT_FALSE(followed_.need_all_anew());
    }
    /// Learns all that Redis has: of so many clients.
    void learn_all(size_t clients) {
        begin();
        for (size_t number = 0; number < clients; ++number) {
            set(number);
        }
        followed_.on_end();
    }
    void set(size_t number, std::chrono::microseconds expires_at = 0us) {
        const std::string key = "k" + std::to_string(number);
        LiveChange change;
        change.name = {.zone = "per_ip", .encoded_key = key, .rule = {}};
        change.override.what = {.limit = 1, .expires_at = expires_at};
        followed_.on_change(change);
    }
    void remove(size_t number) {
        const std::string key = "k" + std::to_string(number);
        LiveChange change;
        change.name = {.zone = "per_ip", .encoded_key = key, .rule = {}};
        change.is_tombstone = true;
        followed_.on_change(change);
    }
    uint64_t count() const { return zone.memory.live_limits().count(); }

    static constexpr size_t too_many = 3000;
    static constexpr size_t few = 100;

    TestLiveLog live_log_;
    const Zone *zones_[1] = {&zone};
    FollowedZones followed_{settings, zones_, world, live_log_};
};

TEST_F(FollowedZonesTest, LearnsAllAnewWhenThereMayBeRoom) {
    learn_all(few);
    remove(0);
    world.pass(10min);
    EXPECT_FALSE(followed_.need_all_anew()) << "nothing is missing";

    learn_all(too_many);
    world.pass(10min);
    EXPECT_FALSE(followed_.need_all_anew()) << "there is no more room than before";
    remove(1);
    EXPECT_TRUE(followed_.need_all_anew());
    learn_all(too_many);
    remove(2);
    world.pass(30s);
    EXPECT_FALSE(followed_.need_all_anew()) << "it has done so just now";
    world.pass(31s);
    EXPECT_TRUE(followed_.need_all_anew());

    learn_all(few);
    EXPECT_EQ(count(), few);
    remove(3);
    world.pass(10min);
    EXPECT_FALSE(followed_.need_all_anew()) << "nothing is missing any more";
}

TEST_F(FollowedZonesTest, LearnsAllAnewWhenOverridesHaveExpired) {
    begin();
    for (size_t number = 0; number < few; ++number) {
        set(number, world.precise_now() + 1s);
    }
    for (size_t number = few; number < too_many; ++number) {
        set(number);
    }
    followed_.on_end();
    world.pass(10min);
    EXPECT_FALSE(followed_.need_all_anew());
    followed_.remove_expired();
    EXPECT_TRUE(followed_.need_all_anew());
}

// A full synchronisation lists what was deleted within the last hour.
TEST_F(FollowedZonesTest, WhatAFullSynchronisationListsAsDeletedMakesNoRoom) {
    begin();
    for (size_t number = few; number < too_many; ++number) {
        set(number);
    }
    remove(0);
    set(1, 1us); // has expired, and is not purged yet
    followed_.on_end();
    world.pass(10min);
    EXPECT_FALSE(followed_.need_all_anew());
}

TEST_F(FollowedZonesTest, LogsEachShortageOnce) {
    const auto logged = [this] { return live_log_.no_room.size(); };
    learn_all(few);
    EXPECT_EQ(logged(), 0U);
    learn_all(too_many);
    EXPECT_EQ(logged(), 1U);
    set(too_many + 1);
    learn_all(too_many);
    {
        FollowedZones of_another_worker(settings, zones_, world, live_log_);
        of_another_worker.on_begin(redis_client::LiveReading::of_store);
    }
    learn_all(too_many);
    EXPECT_EQ(logged(), 1U) << "it is the same one";
    learn_all(few);
    EXPECT_EQ(logged(), 1U);
    learn_all(too_many);
    EXPECT_EQ(live_log_.no_room, (std::vector<std::string>{"per_ip", "per_ip"}));
}

} // namespace
} // namespace limiter
