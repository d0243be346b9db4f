#include "rate_limit/rule/shards.hpp"

#include "unit/rate_limit/algorithms.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;

/// A quota that grants so many units at once, if the algorithm's capacity is not the limit.
Quota quota_of(Algorithm algorithm, uint64_t limit, uint64_t at_once) {
    Quota quota{.algorithm = algorithm, .window = 60s, .limit = limit};
    if (is_bucket(algorithm)) {
        quota.burst = algorithm == Algorithm::token_bucket ? at_once : at_once - 1;
    }
    return quota;
}

std::vector<Quota> shares_of(const Quota &quota, uint64_t shards) {
    std::vector<Quota> shares;
    const uint64_t in_use = shards_in_use(quota, shards);
    for (uint64_t shard = 0; shard < in_use; ++shard) {
        shares.push_back(share_of(quota, in_use, shard));
    }
    return shares;
}

TEST(Shards, SumUpToTheRule) {
    for (const Algorithm algorithm : all_algorithms) {
        for (const uint64_t shards : {1, 2, 3, 7, 64}) {
            for (const uint64_t limit : {1, 2, 7, 63, 64, 65, 1000, 999'999'937}) {
                for (const uint64_t at_once : {1, 5, 64, 100, 1'000'000'000}) {
                    Quota quota = quota_of(algorithm, limit, at_once);
                    quota.delay = at_once / 2;
                    Quota sum{.algorithm = algorithm};
                    uint64_t capacity = 0;
                    for (const Quota &share : shares_of(quota, shards)) {
                        sum.limit += share.limit;
                        sum.delay += share.delay;
                        capacity += share.capacity();
                    }
                    EXPECT_EQ(sum.limit, quota.limit) << to_string(algorithm) << ", " << shards;
                    EXPECT_EQ(sum.delay, quota.delay) << to_string(algorithm) << ", " << shards;
                    EXPECT_EQ(capacity, quota.capacity()) << to_string(algorithm) << ", " << shards;
                }
            }
        }
    }
}

TEST(Shards, AreChosenByChanceUnlessTheCostFitsIntoSomeAlone) {
    Quota quota{.algorithm = Algorithm::fixed_window, .window = 60s, .limit = 10};
    for (uint64_t chance = 0; chance < 8; ++chance) { // the shares are 3, 3, 2, 2
        quota.cost = 2;
        EXPECT_EQ(choose_shard(quota, 4, chance), chance % 4);
        quota.cost = 3;
        EXPECT_EQ(choose_shard(quota, 4, chance), 3u);
    }
}

TEST(Shards, AreNearlyAlikeAndNoneIsEmpty) {
    for (const Algorithm algorithm : all_algorithms) {
        for (const uint64_t limit : {1, 2, 9, 64, 1000}) {
            const Quota quota = quota_of(algorithm, limit, 10);
            const uint64_t in_use = shards_in_use(quota, 8);
            const auto shares = shares_of(quota, 8);
            EXPECT_EQ(smallest_capacity(quota, in_use),
                      std::ranges::min(shares, {}, &Quota::capacity).capacity());
            for (const Quota &share : shares) {
                EXPECT_GE(share.limit, 1u);
                EXPECT_GE(share.capacity(), 1u);
                EXPECT_EQ(share.limit - quota.limit / in_use <= 1, true);
                EXPECT_EQ(share.capacity() - quota.capacity() / in_use <= 1, true);
            }
        }
    }
}

TEST(Shards, AreInUseWhereThereIsAUnitForEach) {
    EXPECT_EQ(shards_in_use(quota_of(Algorithm::sliding_log, 100, 0), 8), 8u);
    EXPECT_EQ(shards_in_use(quota_of(Algorithm::sliding_log, 8, 0), 8), 8u);
    EXPECT_EQ(shards_in_use(quota_of(Algorithm::sliding_log, 7, 0), 8), 7u);
    EXPECT_EQ(shards_in_use(quota_of(Algorithm::sliding_log, 0, 0), 8), 1u);
    EXPECT_EQ(shards_in_use(quota_of(Algorithm::gcra, 100, 5), 8), 5u);
    EXPECT_EQ(shards_in_use(quota_of(Algorithm::gcra, 3, 5), 8), 3u);
    EXPECT_EQ(shards_in_use(quota_of(Algorithm::token_bucket, 100, 0), 8), 1u);
}

TEST(Shards, AreTheRuleWhereThereIsOne) {
    Quota quota{.algorithm = Algorithm::token_bucket, .window = 60s, .limit = 100, .cost = 3};
    const Quota share = share_of(quota, 1, 0);
    EXPECT_EQ(share.limit, 100u);
    EXPECT_EQ(share.burst, std::nullopt);
    EXPECT_EQ(share_of(quota, 8, 5).cost, 3u);
    EXPECT_EQ(share_of(quota, 8, 5).window, 60s);
}

TEST(Shards, AreAlikeFromTheFirstOneOn) {
    for (const Algorithm algorithm : all_algorithms) {
        for (const uint64_t limit : {8, 11, 13, 100}) {
            Quota quota = quota_of(algorithm, limit, 21);
            quota.delay = 3;
            const std::vector<Quota> shares = shares_of(quota, 8);
            for (size_t shard = 0; shard < shares.size(); ++shard) {
                const uint64_t first = first_alike(quota, shares.size(), shard);
                ASSERT_LE(first, shard);
                EXPECT_EQ(shares[first].limit, shares[shard].limit);
                EXPECT_EQ(shares[first].delay, shares[shard].delay);
                EXPECT_EQ(shares[first].burst, shares[shard].burst);
                EXPECT_EQ(first_alike(quota, shares.size(), first), first);
            }
        }
    }
    const Quota even = quota_of(Algorithm::sliding_log, 16, 0);
    EXPECT_EQ(first_alike(even, 8, 7), 0u);
}

TEST(Shards, LeaveAsMuchOfTheRuleAsOneHas) {
    const Quota quota = quota_of(Algorithm::sliding_log, 10, 0); // the shares are 3, 3, 2, 2
    const auto remaining = [&](uint64_t shard, uint64_t units) {
        const Verdict verdict{.remaining = units, .reset = 7s};
        const Verdict told = verdict_of_share(quota, share_of(quota, 4, shard), verdict);
        EXPECT_EQ(told.reset, 7s);
        return told.remaining;
    };
    EXPECT_EQ(remaining(0, 3), 10u);
    EXPECT_EQ(remaining(0, 2), 6u);
    EXPECT_EQ(remaining(0, 1), 3u);
    EXPECT_EQ(remaining(3, 2), 10u);
    EXPECT_EQ(remaining(3, 1), 5u);
    EXPECT_EQ(remaining(3, 0), 0u);
    const Quota large = quota_of(Algorithm::gcra, largest_number, largest_number);
    const Verdict full{.remaining = share_of(large, 2, 0).capacity()};
    EXPECT_EQ(verdict_of_share(large, share_of(large, 2, 0), full).remaining, largest_number);
}

} // namespace
} // namespace rate_limit
