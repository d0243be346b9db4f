// Verdicts and receipts of replies: what holds for each algorithm.

#include "rule_reply_test.hpp"

#include "unit/rate_limit/algorithms.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace rate_limit {
namespace {

TEST(RuleReply, IsOfReplyNumbersOfItsAlgorithm) {
    for (const Algorithm algorithm : all_algorithms) {
        const size_t length = reply_length(algorithm);
        for (size_t other = 0; other <= 6; ++other) {
            const Numbers reply(other, 0);
            EXPECT_EQ(charged(quota_of(algorithm), reply).has_value(), other == length)
                << to_string(algorithm) << ", " << other;
        }
    }
}

TEST(RuleReply, IsGrantedWhereTheFirstNumberIsNotNegative) {
    for (const Algorithm algorithm : all_algorithms) {
        Numbers reply(reply_length(algorithm), 0);
        EXPECT_TRUE(is_granted(reply));
        EXPECT_EQ(charged(quota_of(algorithm), reply)->decision, Decision::granted);
        reply[0] = -1;
        EXPECT_FALSE(is_granted(reply));
        EXPECT_EQ(uncharged(quota_of(algorithm), reply)->decision, Decision::denied);
    }
}

TEST(RuleReply, IsNothingWhereANumberIsBeyondLua) {
    for (const Algorithm algorithm : all_algorithms) {
        for (size_t i = 0; i < reply_length(algorithm); ++i) {
            for (const int64_t beyond : {largest + 1, -largest - 1, INT64_MAX, INT64_MIN}) {
                Numbers reply(reply_length(algorithm), 0);
                reply[i] = beyond;
                EXPECT_EQ(charged(quota_of(algorithm), reply), std::nullopt);
                EXPECT_EQ(uncharged(quota_of(algorithm), reply), std::nullopt);
            }
        }
    }
}

// Costs

TEST(RuleReply, IsNeverWhereTheCostIsMoreThanTheCapacity) {
    for (const Algorithm algorithm : all_algorithms) {
        Quota quota = is_bucket(algorithm) ? bucket_of(algorithm) : quota_of(algorithm);
        quota.cost = quota.capacity() + 1;
        Numbers reply(reply_length(algorithm), 0);
        reply[0] = -1; // this is a bucket's reply when nothing is taken
        const auto verdict = uncharged(quota, reply);
        ASSERT_TRUE(verdict) << to_string(algorithm);
        EXPECT_EQ(verdict->decision, Decision::never);
        EXPECT_EQ(verdict->remaining, quota.capacity()) << to_string(algorithm);
        EXPECT_EQ(verdict->retry_after, 0us);
        EXPECT_EQ(verdict->reset, 0us);

        quota.cost = quota.capacity();
        EXPECT_EQ(uncharged(quota, reply)->decision, Decision::denied) << to_string(algorithm);
    }
}

TEST(RuleReply, IsNothingWhereMoreThanTheCapacityIsGranted) {
    for (const Algorithm algorithm : all_algorithms) {
        Quota quota = is_bucket(algorithm) ? bucket_of(algorithm) : quota_of(algorithm);
        quota.cost = quota.capacity() + 1;
        const Numbers reply(reply_length(algorithm), 0);
        EXPECT_EQ(charged(quota, reply), std::nullopt) << to_string(algorithm);
        EXPECT_EQ(uncharged(quota, reply), std::nullopt) << to_string(algorithm);
    }
}

TEST(RuleReply, CountsTheCostThatWasNotCharged) {
    for (const Algorithm algorithm :
         {Algorithm::fixed_window, Algorithm::sliding_log, Algorithm::concurrency}) {
        Numbers reply(reply_length(algorithm), 0);
        reply[0] = 30; // ten more were taken
        EXPECT_EQ(charged(quota_of(algorithm, 10), reply)->remaining, 30u);
        EXPECT_EQ(uncharged(quota_of(algorithm, 10), reply)->remaining, 40u);
        reply[0] = -4;
        EXPECT_EQ(uncharged(quota_of(algorithm, 10), reply)->remaining, 6u);
        reply[0] = -14; // the limit was lowered
        EXPECT_EQ(uncharged(quota_of(algorithm, 10), reply)->remaining, 0u);
    }
}

// Receipts of a charge at 1'000'000'000 us

int64_t receipt(Algorithm algorithm, const Numbers &reply) {
    return receipt_of_reply(quota_of(algorithm), reply, 1'000'000'000);
}

TEST(Receipt, IsTheMomentOfAWindowsCharge) {
    EXPECT_EQ(receipt(Algorithm::fixed_window, {99, 7'000'000}), 1'000'000'000);
    EXPECT_EQ(receipt(Algorithm::fixed_window, {99, 60'000'000}), 1'000'000'000);
    EXPECT_EQ(receipt(Algorithm::sliding_window, {0, 1, 15'000'000}), 1'000'000'000);
    EXPECT_EQ(receipt(Algorithm::sliding_window, {0, 1, 0}), 1'000'000'000);
}

TEST(Receipt, IsTheWindowsLastMomentWhereTheClockSteppedBackBeforeIt) {
    EXPECT_EQ(receipt(Algorithm::fixed_window, {99, 60'000'001}), 1'060'000'000);
    EXPECT_EQ(receipt(Algorithm::sliding_window, {0, 1, -15'000'000}), 1'074'999'999);
}

TEST(Receipt, IsTheTimeOfALogsEntries) {
    EXPECT_EQ(receipt(Algorithm::sliding_log, {99, 1, 60'000'000, 0}), 1'000'000'000);
    // The clock stepped back: the new entries have the time of the newest one.
    EXPECT_EQ(receipt(Algorithm::sliding_log, {99, 1, 60'000'003, 0}), 1'000'000'003);
}

TEST(Receipt, IsTheStateOfABucketThatNoRefundMoved) {
    for (const Algorithm algorithm : buckets) {
        EXPECT_EQ(receipt(algorithm, {4'250'000, 2, 0}), 1'004'250'000);
        EXPECT_EQ(receipt(algorithm, {4'250'000, 2, 9'000'000}), 1'013'250'000);
    }
}

TEST(Receipt, IsNoneOfASlot) {
    EXPECT_EQ(receipt(Algorithm::concurrency, {99}), 0);
}

} // namespace
} // namespace rate_limit
