// A counter that is spread over several Redis keys: `shards=` of a rule.
//
// Each shard grants its share, and all of them together what the rule does: the shares of the
// limit, of what may pass at once and of the delay sum up to the rule's. So the rule's bound holds,
// while a request may be denied though shards that it did not ask have units left.
#pragma once

#include "verdict.hpp"

#include <cstdint>

namespace rate_limit {

inline constexpr uint64_t most_shards = 64;

/// How many of a rule's shards are in use: as many as there are, but where the limit, or what may
/// pass at once, has fewer units, only so many. At least 1.
uint64_t shards_in_use(const Quota &quota, uint64_t shards);

/// What one of the shards in use grants, the first of which is 0.
Quota share_of(const Quota &quota, uint64_t shards_in_use, uint64_t shard);

/// Of the last one, which has least: a larger cost is never granted, though others might have room.
uint64_t smallest_capacity(const Quota &quota, uint64_t shards_in_use);

/// The first of the shards whose share is the same.
uint64_t first_alike(const Quota &quota, uint64_t shards_in_use, uint64_t shard);

/// What the verdict of a shard says of the rule: what is left of the capacity is estimated, as if
/// the others had the same part of theirs left. Times are those of the shard.
Verdict verdict_of_share(const Quota &quota, const Quota &share, Verdict verdict);

} // namespace rate_limit
