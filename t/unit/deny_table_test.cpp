#include "rate_limit/deny_table.hpp"

#include "shared_table_test.hpp"

#include <gtest/gtest.h>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;

class DenyTableTest : public testing::Test {
  protected:
    OneBucket bucket_{};
    DenyTable table_{bucket_.memory()};
};

Verdict denied(microseconds retry_after, uint64_t remaining = 0) {
    return {.decision = Decision::denied,
            .remaining = remaining,
            .retry_after = retry_after,
            .next_unit = retry_after / 2,
            .reset = retry_after * 2};
}

TEST_F(DenyTableTest, FindsNothingAtFirst) {
    for (const Hash &any : {Hash{0, 0}, Hash{1, 0}, Hash{0, 1}, hash(1)}) {
        EXPECT_EQ(table_.find(any, microseconds{0}), std::nullopt);
        EXPECT_EQ(table_.find(any, start), std::nullopt);
    }
}

TEST_F(DenyTableTest, FindsADenialUntilItsTimeLessDrift) {
    for (const microseconds wait : {microseconds{2}, microseconds{1500}, microseconds{1s},
                                    microseconds{60s}, microseconds{10min}}) {
        const microseconds held = wait - wait / 1024 - 1us;
        table_.add(hash(1), denied(wait), start, an_hour);
        EXPECT_TRUE(table_.find(hash(1), start));
        EXPECT_TRUE(table_.find(hash(1), start + held - 1us)) << wait.count();
        EXPECT_FALSE(table_.find(hash(1), start + held)) << wait.count();
        EXPECT_FALSE(table_.find(hash(1), start + wait));
        EXPECT_FALSE(table_.find(hash(1), start + 1000h));
        EXPECT_FALSE(table_.find(hash(1), start - 1us)); // before it was asked for
    }
}

TEST_F(DenyTableTest, KnowsADenialForTheLongestTimeAtMost) {
    table_.add(hash(1), denied(10min), start, 60s);
    EXPECT_TRUE(table_.find(hash(1), start + 60s - 1us));
    EXPECT_FALSE(table_.find(hash(1), start + 60s));
}

TEST_F(DenyTableTest, KeepsNoDenialThatEndsAtOnce) {
    table_.add(hash(1), denied(0us), start, an_hour);
    table_.add(hash(1), denied(1us), start, an_hour);
    table_.add(hash(1), denied(1s), start, 0us);
    table_.add(hash(1), {.decision = Decision::never}, start, an_hour);
    EXPECT_FALSE(table_.find(hash(1), start));
}

TEST_F(DenyTableTest, CountsDown) {
    table_.add(hash(1), denied(10s, 3), start, an_hour);
    EXPECT_EQ(table_.find(hash(1), start), denied(10s, 3));
    EXPECT_EQ(table_.find(hash(1), start + 4s), (Verdict{.decision = Decision::denied,
                                                         .remaining = 3,
                                                         .retry_after = 6s,
                                                         .next_unit = 1s,
                                                         .reset = 16s}));
    EXPECT_EQ(table_.find(hash(1), start + 7s)->next_unit, 0s); // and no less
}

TEST_F(DenyTableTest, KeepsTheLastDenialOfAHash) {
    for (uint64_t number = 1; number <= 8; ++number) {
        table_.add(hash(number), denied(10s), start, an_hour);
    }
    table_.add(hash(5), denied(20s, 7), start + 1s, an_hour);
    EXPECT_EQ(table_.find(hash(5), start + 1s), denied(20s, 7));
    for (uint64_t number = 1; number <= 8; ++number) {
        EXPECT_TRUE(table_.find(hash(number), start + 1s)) << number;
    }
}

} // namespace
} // namespace rate_limit
