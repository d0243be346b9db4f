#include "redis_client/link/outage.hpp"

#include <gtest/gtest.h>

namespace redis_client {
namespace {

using namespace std::chrono_literals;

TEST(Outage, HasNothingToTellOfSuccess) {
    Outage outage;
    EXPECT_FALSE(outage.is_lasting());
    EXPECT_FALSE(outage.succeed(0ms));
    EXPECT_FALSE(outage.succeed(1h));
}

TEST(Outage, IsToldOnceWhenItBegins) {
    Outage outage;
    EXPECT_TRUE(outage.fail(10ms, 1));
    EXPECT_TRUE(outage.is_lasting());
    EXPECT_FALSE(outage.fail(10ms, 1));
    EXPECT_FALSE(outage.fail(20ms, 1));
    EXPECT_FALSE(outage.fail(1h, 1)); // silence is no success
}

TEST(Outage, IsToldOnceWhenItEnds) {
    Outage outage;
    outage.fail(100ms, 1);
    outage.fail(200ms, 5);
    outage.fail(350ms, 2);
    const auto summary = outage.succeed(2s);
    ASSERT_TRUE(summary);
    EXPECT_EQ(summary->lasted, 250ms);
    EXPECT_EQ(summary->failed_checks, 8u);
    EXPECT_FALSE(outage.is_lasting());
    EXPECT_FALSE(outage.succeed(3s));
}

TEST(Outage, EndsASecondAfterTheLastFailure) {
    Outage outage;
    outage.fail(100ms, 1);
    EXPECT_FALSE(outage.succeed(100ms));
    EXPECT_FALSE(outage.succeed(1099ms));
    EXPECT_TRUE(outage.is_lasting());
    EXPECT_TRUE(outage.succeed(1100ms));
}

TEST(Outage, GoesOnWithAFailureBetweenSuccesses) {
    Outage outage;
    EXPECT_TRUE(outage.fail(0ms, 1));
    EXPECT_FALSE(outage.succeed(999ms));
    EXPECT_FALSE(outage.fail(999ms, 1));
    EXPECT_FALSE(outage.succeed(1998ms));
    const auto summary = outage.succeed(1999ms);
    ASSERT_TRUE(summary);
    EXPECT_EQ(summary->lasted, 999ms);
    EXPECT_EQ(summary->failed_checks, 2u);
}

TEST(Outage, MayFailNoCheckAtAll) {
    Outage outage;
    EXPECT_TRUE(outage.fail(100ms, 0));
    EXPECT_FALSE(outage.fail(200ms, 0));
    const auto summary = outage.succeed(2s);
    ASSERT_TRUE(summary);
    EXPECT_EQ(summary->failed_checks, 0u);
}

TEST(Outage, MayFollowAnother) {
    Outage outage;
    outage.fail(0ms, 7);
    outage.succeed(1s);
    EXPECT_TRUE(outage.fail(5s, 1));
    const auto summary = outage.succeed(6s);
    ASSERT_TRUE(summary);
    EXPECT_EQ(summary->lasted, 0ms);
    EXPECT_EQ(summary->failed_checks, 1u);
}

} // namespace
} // namespace redis_client
