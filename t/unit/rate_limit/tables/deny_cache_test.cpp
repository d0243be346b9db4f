#include "rate_limit/tables/deny_cache.hpp"

#include "shared_table_test.hpp"

#include <gtest/gtest.h>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;

class DenyCacheTest : public testing::Test {
  protected:
    struct alignas(SharedTable::Tags) {
        std::array<std::byte, 64> header;
        OneBucket bucket;
    } memory_{};
    DenyCache table_{std::as_writable_bytes(std::span(&memory_, 1))};

    /// A denial that is certain until its end.
    bool add(const Hash &hash, const Verdict &denied, const DenyCache::CheckTimes &times) {
        return table_.add(hash, denied, denied.retry_after, times);
    }
};

/// The times of a check that took no time.
DenyCache::CheckTimes at(microseconds time) {
    return {.asked = time, .answered = time};
}

Verdict denied(microseconds retry_after, uint64_t remaining = 0) {
    return {.decision = Decision::denied,
            .remaining = remaining,
            .retry_after = retry_after,
            .next_unit = retry_after / 2,
            .reset = retry_after * 2};
}

TEST_F(DenyCacheTest, FindsNothingAtFirst) {
    for (const Hash &any : {Hash{0, 0}, Hash{1, 0}, Hash{0, 1}, hash(1)}) {
        EXPECT_EQ(table_.find(any, microseconds{0}, an_hour), std::nullopt);
        EXPECT_EQ(table_.find(any, start, an_hour), std::nullopt);
    }
}

TEST_F(DenyCacheTest, FindsADenialUntilItsTimeLessDrift) {
    for (const microseconds wait : {microseconds{2}, microseconds{1500}, microseconds{1s},
                                    microseconds{60s}, microseconds{10min}}) {
        const microseconds held = wait - wait / 1000 - 1us;
        add(hash(1), denied(wait), at(start));
        EXPECT_TRUE(table_.find(hash(1), start, an_hour));
        EXPECT_TRUE(table_.find(hash(1), start + held - 1us, an_hour)) << wait.count();
        EXPECT_FALSE(table_.find(hash(1), start + held, an_hour)) << wait.count();
        EXPECT_FALSE(table_.find(hash(1), start + wait, an_hour));
        EXPECT_FALSE(table_.find(hash(1), start + 1000h, an_hour));
        EXPECT_FALSE(table_.find(hash(1), start - 1us, an_hour)); // this is before it was asked for
    }
}

TEST_F(DenyCacheTest, KnowsADenialNoLongerThanItIsCertain) {
    table_.add(hash(1), denied(10min), 1s, at(start));
    const auto found = table_.find(hash(1), start + 900ms, an_hour);
    ASSERT_TRUE(found);
    EXPECT_GT(found->retry_after, 9min);
    EXPECT_FALSE(table_.find(hash(1), start + 1s, an_hour));
}

TEST_F(DenyCacheTest, KnowsADenialForTheLongestTimeAtMost) {
    add(hash(1), denied(10min), at(start));
    EXPECT_TRUE(table_.find(hash(1), start + 60s - 1us, 60s));
    EXPECT_FALSE(table_.find(hash(1), start + 60s, 60s));
    EXPECT_TRUE(table_.find(hash(1), start + 60s, 61s)); // the caller says how old a denial may be
}

TEST_F(DenyCacheTest, KeepsNoDenialThatEndsAtOnce) {
    add(hash(1), denied(0us), at(start));
    add(hash(1), denied(1us), at(start));
    add(hash(1), {.decision = Decision::never}, at(start));
    EXPECT_FALSE(table_.find(hash(1), start, an_hour));
    EXPECT_FALSE(table_.may_hold(start));
}

TEST_F(DenyCacheTest, MayHoldUntilTheLastOneEnds) {
    EXPECT_FALSE(table_.may_hold(start));
    add(hash(1), denied(10s), at(start));
    add(hash(2), denied(5s), at(start + 1s));
    const microseconds end = start + 10s - 10ms - 1us;
    EXPECT_TRUE(table_.may_hold(end - 1us));
    EXPECT_FALSE(table_.may_hold(end));
    EXPECT_FALSE(table_.find(hash(1), end, an_hour));
}

TEST_F(DenyCacheTest, CountsDown) {
    add(hash(1), denied(10s, 3), at(start));
    EXPECT_EQ(table_.find(hash(1), start, an_hour), denied(10s, 3));
    const microseconds passed = 4s - 4ms - 1us; // so much has passed at least by Redis's clock
    EXPECT_EQ(table_.find(hash(1), start + 4s, an_hour), (Verdict{.decision = Decision::denied,
                                                                  .remaining = 3,
                                                                  .retry_after = 10s - passed,
                                                                  .next_unit = 5s - passed,
                                                                  .reset = 20s - passed}));
    EXPECT_EQ(table_.find(hash(1), start + 7s, an_hour)->next_unit, 1us); // it is never less
}

// Redis may have decided just before it answered. A client that waits from then on waits enough.
TEST_F(DenyCacheTest, HoldsFromAskingAndTellsTimesFromTheAnswer) {
    add(hash(1), denied(10s), {.asked = start, .answered = start + 1s});
    const auto found = table_.find(hash(1), start + 1s, an_hour);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->retry_after, 10s + 1ms + 1us);
    EXPECT_EQ(found->next_unit, 5s + 1ms + 1us);
    EXPECT_EQ(found->reset, 20s + 1ms + 1us);
    EXPECT_TRUE(table_.find(hash(1), start + 9s, an_hour));
    EXPECT_FALSE(table_.find(hash(1), start + 10s, an_hour));
}

TEST_F(DenyCacheTest, KeepsTheLastDenialOfAHash) {
    for (uint64_t number = 1; number <= 8; ++number) {
        add(hash(number), denied(10s), at(start));
    }
    add(hash(5), denied(20s, 7), at(start + 1s));
    EXPECT_EQ(table_.find(hash(5), start + 1s, an_hour), denied(20s, 7));
    for (uint64_t number = 1; number <= 8; ++number) {
        EXPECT_TRUE(table_.find(hash(number), start + 1s, an_hour)) << number;
    }
}

} // namespace
} // namespace rate_limit
