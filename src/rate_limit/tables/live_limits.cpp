#include "rate_limit/tables/live_limits.hpp"

#include <algorithm>

namespace rate_limit {

namespace {

using std::chrono::microseconds;

/// Where the values of an override's record are.
struct OverrideRecord {
    enum Value : size_t { action, limit, burst, expires_at };
    static constexpr int action_bits = 8; // the version stands above them, less than 2^53
};

/// Stands for a number that an override does not have. No limit or burst is so large.
constexpr uint64_t none = UINT64_MAX;

std::optional<uint64_t> to_number(uint64_t value) {
    return value != none ? std::optional(value) : std::nullopt;
}

constexpr size_t bucket_size = sizeof(SharedTable::Tags) + sizeof(SharedTable::Entries);

Hash operator^(const Hash &one, const Hash &other) {
    return {.low = one.low ^ other.low, .high = one.high ^ other.high};
}

} // namespace

Quota overridden(Quota quota, const Override &what, uint64_t shards) {
    if (what.limit) {
        set_by_operator(quota, what.burst.has_value(), shards);
        quota.limit = std::min(*what.limit, largest_limit(quota.algorithm));
    }
    if (!is_bucket(quota.algorithm)) {
        return quota;
    }
    if (what.burst) {
        quota.burst = std::min(*what.burst, largest_number);
    }
    if (quota.refill() > longest_refill) {
        quota.set_capacity(quota.largest_capacity());
    }
    return quota;
}

LiveLimits::LiveLimits(std::span<std::byte> memory, const HashSeed &seed)
    : header_(reinterpret_cast<Header *>(memory.data())), seed_(&seed) {
    constexpr size_t part_of_resets = 8;
    memory = memory.subspan(sizeof(Header));
    const size_t buckets = memory.size() / bucket_size;
    const size_t of_resets = std::max<size_t>(buckets / part_of_resets, 1);
    resets_ = SharedTable(memory.first(of_resets * bucket_size));
    overrides_ = SharedTable(memory.subspan(of_resets * bucket_size));
}

/// The hash of a client at a rule is that of the client mixed with that of the rule, so that three
/// targets take two hashes. An empty name has the hash 0.
Hash LiveLimits::identity_of(const OverrideTarget &target) const {
    const HashSeed seed_of_rules{.low = ~seed_->low, .high = seed_->high};
    const Hash of_key = target.encoded_key.empty() ? Hash{} : hash_of(*seed_, target.encoded_key);
    return target.rule.empty() ? of_key : of_key ^ hash_of(seed_of_rules, target.rule);
}

/// Returns those of the targets in which find() looks, in its order.
std::array<Hash, 3> LiveLimits::identities_of(std::string_view encoded_key,
                                              std::string_view rule) const {
    const Hash of_key = identity_of({.encoded_key = encoded_key, .rule = {}});
    const Hash of_rule = identity_of({.encoded_key = {}, .rule = rule});
    return {of_key ^ of_rule, of_key, of_rule};
}

Record LiveLimits::to_record(const Override &what, uint64_t generation, uint64_t version) {
    Record record{.time = to_time(generation), .holds_for = microseconds{1}, .values = {}};
    record.values[OverrideRecord::action] =
        version << OverrideRecord::action_bits | static_cast<uint64_t>(what.action);
    record.values[OverrideRecord::limit] = what.limit.value_or(none);
    record.values[OverrideRecord::burst] = what.burst.value_or(none);
    record.values[OverrideRecord::expires_at] = static_cast<uint64_t>(what.expires_at.count());
    return record;
}

uint64_t LiveLimits::version_of(const Record &record) {
    return record.values[OverrideRecord::action] >> OverrideRecord::action_bits;
}

Override LiveLimits::to_override(const Record &record) {
    return {.action = static_cast<Override::Action>(
                static_cast<uint8_t>(record.values[OverrideRecord::action])),
            .limit = to_number(record.values[OverrideRecord::limit]),
            .burst = to_number(record.values[OverrideRecord::burst]),
            .expires_at = to_time(record.values[OverrideRecord::expires_at])};
}

std::optional<Override> LiveLimits::find(const Hash &identity) const {
    const auto record = overrides_.find(identity, valid_generation());
    return record ? std::optional(to_override(*record)) : std::nullopt;
}

microseconds LiveLimits::reset_time(std::string_view encoded_key) const {
    if (header_->last_reset.load(relaxed) == 0) {
        return microseconds{0};
    }
    const microseconds of_all = to_time(header_->all_reset.load(relaxed));
    const auto own =
        resets_.find(identity_of({.encoded_key = encoded_key, .rule = {}}), microseconds{0});
    return own ? std::max(own->time, of_all) : of_all;
}

bool LiveLimits::was_reset_since(std::string_view encoded_key, microseconds since) const {
    return since <= to_time(header_->last_reset.load(relaxed)) && since <= reset_time(encoded_key);
}

bool LiveLimits::has_room(const OverrideTarget &target) const {
    return overrides_.has_place(identity_of(target), valid_generation());
}

size_t LiveLimits::entries() const {
    const microseconds after_all = to_time(header_->all_reset.load(relaxed) + 1);
    return overrides_.count(valid_generation()) + resets_.count(after_all);
}

} // namespace rate_limit
