// The parameter `shards=` of a rule spreads each of its counters over several Redis keys.
//
// Each shard grants its share of the limit, of the capacity and of the delay, and the shares sum up
// to the rule's. So the bound of the rule holds, but a request may be denied although shards that
// it was not checked by have units left.
#pragma once

#include "rate_limit/rule/verdict.hpp"

#include <cstdint>

namespace rate_limit {

inline constexpr uint64_t most_shards = 64;

/// How many of a rule's shards are in use: at least 1, and no more than the limit or the capacity
/// has units.
uint64_t shards_in_use(const Quota &quota, uint64_t shards);

/// Returns the quota of one of the shards in use. The first one is 0.
Quota share_of(const Quota &quota, uint64_t shards_in_use, uint64_t shard);

/// Returns the capacity of the last shard, which has the least.
uint64_t smallest_capacity(const Quota &quota, uint64_t shards_in_use);

/// Returns the shard that checks a request of the quota, by a random number. If the cost is too
/// large for the last shard, it is that one, so that it does not depend on chance that the cost is
/// never granted.
uint64_t choose_shard(const Quota &quota, uint64_t shards_in_use, uint64_t chance);

/// Returns the first of the shards that have the same share as this one.
uint64_t first_alike(const Quota &quota, uint64_t shards_in_use, uint64_t shard);

/// Makes the verdict of the rule of that of a shard. What is left of the capacity is estimated, as
/// if the other shards had the same part of theirs left. The times are those of the shard.
Verdict verdict_of_share(const Quota &quota, const Quota &share, Verdict verdict);

} // namespace rate_limit
