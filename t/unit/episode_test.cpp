#include "rate_limit/episode.hpp"

#include <gtest/gtest.h>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;

TEST(Episode, HasNothingToTellOfSuccess) {
    Episode episode;
    EXPECT_FALSE(episode.is_lasting());
    EXPECT_FALSE(episode.succeed(0ms));
    EXPECT_FALSE(episode.succeed(1h));
}

TEST(Episode, IsToldOnceWhenItBegins) {
    Episode episode;
    EXPECT_TRUE(episode.fail(10ms, 1));
    EXPECT_TRUE(episode.is_lasting());
    EXPECT_FALSE(episode.fail(10ms, 1));
    EXPECT_FALSE(episode.fail(20ms, 1));
    EXPECT_FALSE(episode.fail(1h, 1)); // silence is no success
}

TEST(Episode, IsToldOnceWhenItEnds) {
    Episode episode;
    episode.fail(100ms, 1);
    episode.fail(200ms, 5);
    episode.fail(350ms, 2);
    const auto summary = episode.succeed(2s);
    ASSERT_TRUE(summary);
    EXPECT_EQ(summary->lasted, 250ms);
    EXPECT_EQ(summary->failed_checks, 8u);
    EXPECT_FALSE(episode.is_lasting());
    EXPECT_FALSE(episode.succeed(3s));
}

TEST(Episode, EndsASecondAfterTheLastFailure) {
    Episode episode;
    episode.fail(100ms, 1);
    EXPECT_FALSE(episode.succeed(100ms));
    EXPECT_FALSE(episode.succeed(1099ms));
    EXPECT_TRUE(episode.is_lasting());
    EXPECT_TRUE(episode.succeed(1100ms));
}

TEST(Episode, GoesOnWithAFailureBetweenSuccesses) {
    Episode episode;
    EXPECT_TRUE(episode.fail(0ms, 1));
    EXPECT_FALSE(episode.succeed(999ms));
    EXPECT_FALSE(episode.fail(999ms, 1));
    EXPECT_FALSE(episode.succeed(1998ms));
    const auto summary = episode.succeed(1999ms);
    ASSERT_TRUE(summary);
    EXPECT_EQ(summary->lasted, 999ms);
    EXPECT_EQ(summary->failed_checks, 2u);
}

TEST(Episode, MayFailNoCheckAtAll) {
    Episode episode;
    EXPECT_TRUE(episode.fail(100ms, 0));
    EXPECT_FALSE(episode.fail(200ms, 0));
    const auto summary = episode.succeed(2s);
    ASSERT_TRUE(summary);
    EXPECT_EQ(summary->failed_checks, 0u);
}

TEST(Episode, MayFollowAnother) {
    Episode episode;
    episode.fail(0ms, 7);
    episode.succeed(1s);
    EXPECT_TRUE(episode.fail(5s, 1));
    const auto summary = episode.succeed(6s);
    ASSERT_TRUE(summary);
    EXPECT_EQ(summary->lasted, 0ms);
    EXPECT_EQ(summary->failed_checks, 1u);
}

} // namespace
} // namespace rate_limit
