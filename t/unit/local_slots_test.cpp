// Slots of `concurrency` rules that the local fallback counts.

#include "local_test.hpp"

#include <gtest/gtest.h>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;

constexpr Quota three_slots{.algorithm = Algorithm::concurrency, .window = 60s, .limit = 3};

TEST(LocalSlots, AreThoseOfRequestsInFlight) {
    Host host;
    const auto release = [&](uint64_t units, int64_t taken_at, int64_t time) {
        host.keep(release_permits(host.known(time), asking(three_slots, units),
                                  host.at(taken_at).monotonic, host.at(time).monotonic));
    };
    EXPECT_EQ(host.ask(three_slots, 0).remaining, 2u);
    EXPECT_EQ(host.ask(asking(three_slots, 2), 1).remaining, 0u);
    EXPECT_EQ(host.ask(three_slots, 2),
              (Verdict{.decision = Decision::denied, .retry_after = 1s, .reset = 1s}));
    release(1, 0, 3);
    EXPECT_EQ(host.ask(asking(three_slots, 0), 3).remaining, 1u);
    EXPECT_EQ(
        host.ask(asking(three_slots, 2), 3),
        (Verdict{.decision = Decision::denied, .remaining = 1, .retry_after = 1s, .reset = 1s}));
    release(2, 1, 4);
    EXPECT_EQ(host.ask(asking(three_slots, 0), 4), Verdict{.remaining = 3});
    EXPECT_EQ(host.known(4), std::nullopt);
}

TEST(LocalSlots, OfAHigherLimitCount) {
    Host host;
    Quota quota = three_slots;
    quota.limit = 5;
    host.ask(asking(quota, 5), 0);
    EXPECT_EQ(host.ask(three_slots, 1).decision, Decision::denied);
    EXPECT_EQ(host.ask(three_slots, 1).remaining, 0u);
}

TEST(LocalSlots, AreForgottenAWindowAfterTheLastWasTakenOrGivenBack) {
    Host host;
    host.ask(three_slots, 0);
    host.ask(asking(three_slots, 2), 30 * second);
    EXPECT_EQ(host.ask(three_slots, 90 * second - 1).decision, Decision::denied);
    EXPECT_EQ(host.ask(asking(three_slots, 0), 90 * second).remaining, 3u);
    host.keep(release_permits(host.known(80 * second), three_slots, host.at(0).monotonic,
                              host.at(80 * second).monotonic));
    EXPECT_EQ(host.ask(asking(three_slots, 0), 140 * second - 1).remaining, 1u);
    EXPECT_EQ(host.ask(asking(three_slots, 0), 140 * second).remaining, 3u);
}

TEST(LocalSlots, ThatWereForgottenAreNotGivenBack) {
    Host host;
    host.ask(three_slots, 0);
    EXPECT_FALSE(release_permits(host.known(60 * second), three_slots, host.at(0).monotonic,
                                 host.at(60 * second).monotonic));
    host.ask(three_slots, 61 * second);
    EXPECT_FALSE(release_permits(host.known(62 * second), three_slots, host.at(0).monotonic,
                                 host.at(62 * second).monotonic));
    EXPECT_EQ(host.ask(asking(three_slots, 0), 62 * second).remaining, 2u);
}

// A process that has read the clock may be overtaken by another before it takes a slot.
TEST(LocalSlots, ThatWereTakenALittleEarlierAreGivenBack) {
    Host host;
    host.ask(three_slots, 10);
    host.ask(three_slots, 9);
    for (const int64_t taken_at : {9, 10}) {
        host.keep(release_permits(host.known(11), three_slots, host.at(taken_at).monotonic,
                                  host.at(11).monotonic));
    }
    EXPECT_EQ(host.ask(three_slots, 11).remaining, 2u);
}

} // namespace
} // namespace rate_limit
