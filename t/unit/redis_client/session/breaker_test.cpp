#include "redis_client/session/breaker.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace redis_client {
namespace {

using namespace std::chrono_literals;
using Time = Breaker::Time;

void fail(Breaker &breaker, int times, Time now) {
    for (int i = 0; i < times; ++i) {
        breaker.fail(now);
    }
}

/// When it admits the next check, to be asked for from `now` on each millisecond.
Time next_admitted(Breaker &breaker, Time now) {
    while (!breaker.admits(now)) {
        now += 1ms;
    }
    return now;
}

class BreakerTest : public testing::Test {
  protected:
    void expect_cooldown(Time began, Time ended) {
        EXPECT_GE(ended - began, 800ms);
        EXPECT_LE(ended - began, 1200ms);
    }

    Breaker breaker_{{.failures = 3, .cooldown = 1000ms}, 1};
};

TEST_F(BreakerTest, OpensAfterSoManyFailuresInARow) {
    fail(breaker_, 2, 0ms);
    breaker_.succeed();
    fail(breaker_, 2, 0ms);
    EXPECT_FALSE(breaker_.is_open());
    EXPECT_TRUE(breaker_.admits(0ms));
    fail(breaker_, 1, 0ms);
    EXPECT_TRUE(breaker_.is_open());
    EXPECT_FALSE(breaker_.admits(0ms));
}

TEST_F(BreakerTest, AdmitsOneProbeEachCooldownWhateverBecomesOfIt) {
    fail(breaker_, 3, 500ms);
    Time before = 500ms;
    for (int i = 0; i < 10; ++i) {
        const Time probe = next_admitted(breaker_, before);
        expect_cooldown(before, probe);
        EXPECT_FALSE(breaker_.admits(probe));
        before = probe;
    }
}

TEST_F(BreakerTest, ClosesWhenTheProbeSucceeds) {
    fail(breaker_, 3, 0ms);
    const Time probe = next_admitted(breaker_, 0ms);
    breaker_.succeed();
    EXPECT_TRUE(breaker_.admits(probe));
    EXPECT_TRUE(breaker_.admits(probe));
    fail(breaker_, 2, probe);
    EXPECT_FALSE(breaker_.is_open());
}

TEST_F(BreakerTest, StaysOpenWhenTheProbeFails) {
    fail(breaker_, 3, 0ms);
    const Time probe = next_admitted(breaker_, 0ms);
    fail(breaker_, 1, probe + 100ms);
    expect_cooldown(probe, next_admitted(breaker_, probe));
}

TEST_F(BreakerTest, IsNotHeldOpenByChecksThatWereAskedBefore) {
    fail(breaker_, 3, 0ms);
    fail(breaker_, 60, 750ms);
    expect_cooldown(0ms, next_admitted(breaker_, 0ms));
}

TEST_F(BreakerTest, ProbesAtOnceWhenRedisHasCaughtUpButNotAgainAndAgain) {
    breaker_.caught_up();
    for (const Time opened : {0ms, 5000ms}) {
        fail(breaker_, 3, opened);
        breaker_.caught_up();
        EXPECT_TRUE(breaker_.admits(opened + 10ms));
        breaker_.caught_up(); // that probe was late, too
        expect_cooldown(opened + 10ms, next_admitted(breaker_, opened + 10ms));
        breaker_.succeed();
    }
}

TEST(Breaker, SpreadsProbesByAFifth) {
    Time first = Time::max();
    Time last{0};
    for (uint32_t seed = 0; seed < 2'000'000'000; seed += 400'003) {
        Breaker breaker({.failures = 1, .cooldown = 1000ms}, seed);
        breaker.fail(0ms);
        const Time probe = next_admitted(breaker, 0ms);
        first = std::min(first, probe);
        last = std::max(last, probe);
    }
    EXPECT_EQ(first, 800ms);
    EXPECT_EQ(last, 1200ms);
}

TEST(Breaker, NeverOpensWhereItIsOff) {
    Breaker breaker({.failures = 0}, 1);
    fail(breaker, 1000, 0ms);
    EXPECT_TRUE(breaker.admits(0ms));
}

TEST(Breaker, TakesTheShortestCooldown) {
    Breaker breaker({.failures = 1, .cooldown = 1ms}, 1);
    breaker.fail(0ms);
    EXPECT_FALSE(breaker.admits(0ms));
    EXPECT_TRUE(breaker.admits(1ms));
}

} // namespace
} // namespace redis_client
