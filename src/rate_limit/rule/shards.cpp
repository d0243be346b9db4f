#include "rate_limit/rule/shards.hpp"

#include <algorithm>

namespace rate_limit {

namespace {

/// The shards before the remainder of the division have one more.
uint64_t part_of(uint64_t number, uint64_t shards, uint64_t shard) {
    return number / shards + (shard < number % shards ? 1 : 0);
}

} // namespace

uint64_t shards_in_use(const Quota &quota, uint64_t shards) {
    const uint64_t units = std::min(quota.limit, quota.capacity());
    return std::clamp<uint64_t>(units, 1, shards);
}

Quota share_of(const Quota &quota, uint64_t shards_in_use, uint64_t shard) {
    if (shards_in_use == 1) {
        return quota;
    }
    Quota share = quota;
    share.limit = part_of(quota.limit, shards_in_use, shard);
    share.delay = part_of(quota.delay, shards_in_use, shard);
    share.set_capacity(part_of(quota.capacity(), shards_in_use, shard));
    return share;
}

uint64_t smallest_capacity(const Quota &quota, uint64_t shards_in_use) {
    return part_of(quota.capacity(), shards_in_use, shards_in_use - 1);
}

uint64_t choose_shard(const Quota &quota, uint64_t shards_in_use, uint64_t chance) {
    return quota.cost > smallest_capacity(quota, shards_in_use) ? shards_in_use - 1
                                                                : chance % shards_in_use;
}

uint64_t first_alike(const Quota &quota, uint64_t shards_in_use, uint64_t shard) {
    uint64_t first = 0;
    for (const uint64_t number : {quota.limit, quota.delay, quota.capacity()}) {
        const uint64_t first_smaller = number % shards_in_use;
        if (first_smaller <= shard) {
            first = std::max(first, first_smaller);
        }
    }
    return first;
}

Verdict verdict_of_share(const Quota &quota, const Quota &share, Verdict verdict) {
    verdict.remaining = verdict.remaining * quota.capacity() / share.capacity();
    return verdict;
}

} // namespace rate_limit
