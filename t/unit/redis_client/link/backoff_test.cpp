#include "redis_client/link/backoff.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace redis_client {
namespace {

using std::chrono::milliseconds;

Backoff after_attempts(size_t count) {
    Backoff backoff;
    for (size_t i = 0; i < count; ++i) {
        backoff.next(0);
    }
    return backoff;
}

TEST(Backoff, DoublesUpToASecondAndIsShortenedByUpToAHalf) {
    const std::vector<int> steps = {50, 100, 200, 400, 800, 1000, 1000, 1000};
    for (size_t attempt = 0; attempt < steps.size(); ++attempt) {
        milliseconds shortest = milliseconds::max();
        milliseconds longest = milliseconds::min();
        for (uint32_t random = 0; random < 2000; ++random) {
            const milliseconds wait = after_attempts(attempt).next(random);
            shortest = std::min(shortest, wait);
            longest = std::max(longest, wait);
        }
        EXPECT_EQ(shortest, milliseconds(steps[attempt] / 2)) << attempt;
        EXPECT_EQ(longest, milliseconds(steps[attempt])) << attempt;
    }
}

TEST(Backoff, StaysAtASecondForEver) {
    const milliseconds wait = after_attempts(1000).next(UINT32_MAX);
    EXPECT_GE(wait, milliseconds(500));
    EXPECT_LE(wait, milliseconds(1000));
}

TEST(Backoff, GoesOnDoublingToTheLimitOfEachAttempt) {
    Backoff backoff = after_attempts(1000);
    const auto wait = [&](milliseconds at_most) { return backoff.next(0, at_most); };
    EXPECT_EQ(wait(Backoff::longest_refused), milliseconds(1000));
    EXPECT_EQ(wait(Backoff::longest_refused), milliseconds(2000));
    EXPECT_EQ(wait(Backoff::longest_refused), milliseconds(4000));
    EXPECT_EQ(wait(Backoff::longest_refused), milliseconds(5000));
    EXPECT_EQ(wait(Backoff::longest_refused), milliseconds(5000));
    EXPECT_EQ(wait(Backoff::longest), milliseconds(500));
    EXPECT_EQ(wait(Backoff::longest_refused), milliseconds(1000));
}

TEST(Backoff, BeginsAnewAfterASuccess) {
    Backoff backoff = after_attempts(10);
    backoff.reset();
    EXPECT_EQ(backoff.next(0), milliseconds(25));
    EXPECT_EQ(backoff.next(0), milliseconds(50));
}

} // namespace
} // namespace redis_client
