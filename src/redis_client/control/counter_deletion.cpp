#include "redis_client/control/counter_deletion.hpp"

#include "rate_limit/rule/shards.hpp"
#include "rate_limit/text/key.hpp"
#include "redis_client/wire/hash_slot.hpp"
#include "redis_client/wire/resp.hpp"

#include <algorithm>
#include <tuple>

namespace redis_client {

namespace {

using rate_limit::block_suffix;
using rate_limit::RedisKeyBuffer;

constexpr std::string_view unlink = "UNLINK";

std::string_view key_of(const CounterToDelete &counter, uint64_t shard, const CounterOwner &owner,
                        RedisKeyBuffer &buffer) {
    const rate_limit::KeyFormat format(owner.prefix, owner.zone, counter.name, counter.shards);
    return counter.shards > 1 ? format.write_encoded(owner.encoded_key, shard, buffer)
                              : format.write_encoded(owner.encoded_key, buffer);
}

} // namespace

bool CounterDeletion::add(std::string_view name, uint64_t shards) {
    if (!rate_limit::is_counter_name(name) || shards == 0 || shards > rate_limit::most_shards) {
        return true;
    }
    if (counters_.size() == most_counters) {
        return false;
    }
    counters_.push_back({.name = std::string(name), .shards = shards});
    return true;
}

void CounterDeletion::begin() {
    std::ranges::sort(counters_, [](const CounterToDelete &one, const CounterToDelete &other) {
        return std::tie(one.shards, one.name) < std::tie(other.shards, other.name);
    });
    const auto doubles =
        std::unique(counters_.begin(), counters_.end(),
                    [](const auto &one, const auto &other) { return one.is_same(other); });
    counters_.erase(doubles, counters_.end());
}

std::optional<CounterPortion> CounterDeletion::next() {
    if (first_ == counters_.size()) {
        return std::nullopt;
    }
    const uint64_t shards = counters_[first_].shards;
    const auto from_first = std::span(counters_).subspan(first_);
    const auto end = std::ranges::find_if(
        from_first.first(std::min(from_first.size(), CounterPortion::most_counters)),
        [&](const CounterToDelete &counter) { return counter.shards != shards; });
    const auto count = static_cast<size_t>(end - from_first.begin());
    const CounterPortion portion{.counters = from_first.first(count), .shard = shard_};
    if (++shard_ == shards) {
        shard_ = 0;
        first_ += count;
    }
    return portion;
}

uint16_t hash_slot_of(const CounterPortion &portion, const CounterOwner &owner) {
    RedisKeyBuffer buffer;
    return hash_slot(key_of(portion.counters.front(), portion.shard, owner, buffer));
}

bool write_deletion(ByteQueue &out, const CounterPortion &portion, const CounterOwner &owner) {
    const size_t most_bytes =
        unlink.size() + portion.key_count() * (sizeof(RedisKeyBuffer) + block_suffix.size());
    CommandWriter command(out, 1 + portion.key_count(), most_bytes);
    if (!command.ok()) {
        return false;
    }
    command.word(unlink);
    for (const CounterToDelete &counter : portion.counters) {
        RedisKeyBuffer buffer;
        const std::string_view key = key_of(counter, portion.shard, owner, buffer);
        command.word(key);
        command.word(key, block_suffix);
    }
    return true;
}

bool write_deletion(ByteQueue &out, const CounterPortion &portion, const CounterOwner &owner,
                    size_t key) {
    RedisKeyBuffer buffer;
    const std::string_view counter =
        key_of(portion.counters[key / 2], portion.shard, owner, buffer);
    CommandWriter command(out, 2, unlink.size() + counter.size() + block_suffix.size());
    if (!command.ok()) {
        return false;
    }
    command.word(unlink);
    command.word(counter, key % 2 == 0 ? std::string_view() : block_suffix);
    return true;
}

} // namespace redis_client
