// Permits of `concurrency` rules that the local fallback counts.

#include "local_test.hpp"

#include <gtest/gtest.h>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;

constexpr Quota three_permits{.algorithm = Algorithm::concurrency, .window = 60s, .limit = 3};

TEST(LocalPermits, AreThoseOfRequestsInFlight) {
    Host host;
    const auto release = [&](uint64_t units, int64_t taken_at, int64_t time) {
        host.keep(release_permits(host.known(time), asking(three_permits, units),
                                  host.at(taken_at).monotonic, host.at(time).monotonic));
    };
    EXPECT_EQ(host.ask(three_permits, 0).remaining, 2u);
    EXPECT_EQ(host.ask(asking(three_permits, 2), 1).remaining, 0u);
    EXPECT_EQ(host.ask(three_permits, 2),
              (Verdict{.decision = Decision::denied, .retry_after = 1s, .reset = 1s}));
    release(1, 0, 3);
    EXPECT_EQ(host.ask(asking(three_permits, 0), 3).remaining, 1u);
    EXPECT_EQ(
        host.ask(asking(three_permits, 2), 3),
        (Verdict{.decision = Decision::denied, .remaining = 1, .retry_after = 1s, .reset = 1s}));
    release(2, 1, 4);
    EXPECT_EQ(host.ask(asking(three_permits, 0), 4), Verdict{.remaining = 3});
    EXPECT_EQ(host.known(4), std::nullopt);
}

TEST(LocalPermits, OfAHigherLimitCount) {
    Host host;
    Quota quota = three_permits;
    quota.limit = 5;
    host.ask(asking(quota, 5), 0);
    EXPECT_EQ(host.ask(three_permits, 1).decision, Decision::denied);
    EXPECT_EQ(host.ask(three_permits, 1).remaining, 0u);
}

TEST(LocalPermits, AreForgottenAWindowAfterTheLastWasTakenOrGivenBack) {
    Host host;
    host.ask(three_permits, 0);
    host.ask(asking(three_permits, 2), 30 * second);
    EXPECT_EQ(host.ask(three_permits, 90 * second - 1).decision, Decision::denied);
    EXPECT_EQ(host.ask(asking(three_permits, 0), 90 * second).remaining, 3u);
    host.keep(release_permits(host.known(80 * second), three_permits, host.at(0).monotonic,
                              host.at(80 * second).monotonic));
    EXPECT_EQ(host.ask(asking(three_permits, 0), 140 * second - 1).remaining, 1u);
    EXPECT_EQ(host.ask(asking(three_permits, 0), 140 * second).remaining, 3u);
}

TEST(LocalPermits, ThatWereForgottenAreNotGivenBack) {
    Host host;
    host.ask(three_permits, 0);
    EXPECT_FALSE(release_permits(host.known(60 * second), three_permits, host.at(0).monotonic,
                                 host.at(60 * second).monotonic));
    host.ask(three_permits, 61 * second);
    EXPECT_FALSE(release_permits(host.known(62 * second), three_permits, host.at(0).monotonic,
                                 host.at(62 * second).monotonic));
    EXPECT_EQ(host.ask(asking(three_permits, 0), 62 * second).remaining, 2u);
}

// A process that has read the clock may be overtaken by another before it takes a permit.
TEST(LocalPermits, ThatWereTakenALittleEarlierAreGivenBack) {
    Host host;
    host.ask(three_permits, 10);
    host.ask(three_permits, 9);
    for (const int64_t taken_at : {9, 10}) {
        host.keep(release_permits(host.known(11), three_permits, host.at(taken_at).monotonic,
                                  host.at(11).monotonic));
    }
    EXPECT_EQ(host.ask(three_permits, 11).remaining, 2u);
}

} // namespace
} // namespace rate_limit
