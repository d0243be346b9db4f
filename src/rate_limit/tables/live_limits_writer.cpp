#include "rate_limit/tables/live_limits_writer.hpp"

#include <algorithm>

namespace rate_limit {

namespace {

using std::chrono::microseconds;

void raise_time(std::atomic<uint64_t> &latest, microseconds time) {
    raise(latest, static_cast<uint64_t>(time.count()), release);
}

} // namespace

void LiveLimitsWriter::begin_generation(Newer newer) {
    newer_ = newer;
    const bool looks_for_room = may_have_room_for_dropped() && !needs_generation();
    to_keep_ = looks_for_room ? count_ : 0;
    generation_ = header().last_generation.fetch_add(1, acquire_release) + 1;
    count_ = 0;
    has_dropped_ = has_made_room_ = false;
}

void LiveLimitsWriter::end_generation() {
    if (is_superseded()) {
        return;
    }
    raise(header().valid_generation, generation_, release);
    header().is_short_of_room.store(has_dropped_, relaxed);
    has_made_room_ = has_made_room_ || to_keep_ > 0;
    to_keep_ = 0;
    publish_count();
    look_for_damage();
}

bool LiveLimitsWriter::needs_generation() const {
    return header().damaged_generation.load(relaxed) >= generation_;
}

bool LiveLimitsWriter::may_have_room_for_dropped() const {
    return limits_.is_short_of_room() && has_made_room_;
}

bool LiveLimitsWriter::set(const OverrideTarget &target, const Override &what,
                           microseconds redis_now, uint64_t version) {
    const Hash identity = limits_.identity_of(target);
    if (is_superseded() || has_newer(identity, version)) {
        return true;
    }
    bool has_room = true;
    if (what.has_expired(redis_now)) {
        erase(identity);
    } else {
        has_room = store(identity, what, version);
    }
    look_for_damage();
    return has_room;
}

void LiveLimitsWriter::remove(const OverrideTarget &target, uint64_t version) {
    const Hash identity = limits_.identity_of(target);
    if (!is_superseded() && !has_newer(identity, version)) {
        erase(identity);
        look_for_damage();
    }
}

void LiveLimitsWriter::reset(std::string_view encoded_key, uint64_t version, microseconds now) {
    if (is_superseded()) {
        return;
    }
    const Hash identity = limits_.identity_of({.encoded_key = encoded_key, .rule = {}});
    const Record record{.time = now, .holds_for = microseconds{1}, .values = {version}};
    SharedTable &resets = limits_.resets_;
    const auto known = resets.find(identity, microseconds{0});
    if (known && known->values[0] == version) {
        return;
    }
    // This comes first: if this process is killed between the two, the reset is not known yet, and
    // will be done by the next one.
    raise_time(header().last_reset, now);
    // Resets that are older than one of all clients say no more than that.
    const microseconds after_all = LiveLimits::to_time(header().all_reset.load(relaxed) + 1);
    if (!resets.store_if_free(identity, record, after_all)) {
        reset_all(now);
        resets.store(identity, record); // so that its version is known
    }
    look_for_damage();
}

void LiveLimitsWriter::reset_all(microseconds now) {
    if (!is_superseded()) {
        raise_time(header().last_reset, now);
        raise_time(header().all_reset, now);
    }
}

size_t LiveLimitsWriter::remove_expired(microseconds redis_now) {
    if (is_superseded()) {
        return 0;
    }
    constexpr size_t most_looks = 1024;
    SharedTable &overrides = limits_.overrides_;
    const uint64_t valid = header().valid_generation.load(relaxed);
    const auto is_dead = [&](const Record &record) {
        const auto generation = static_cast<uint64_t>(record.time.count());
        const bool has_expired = LiveLimits::to_override(record).has_expired(redis_now);
        if (has_expired && generation == generation_) {
            --count_;
            has_made_room_ = true;
        }
        return has_expired || generation < valid;
    };
    const size_t looks = std::min(most_looks, overrides.bucket_count());
    for (size_t i = 0; i < looks; ++i) {
        overrides.erase_if(next_bucket_, is_dead);
        next_bucket_ = (next_bucket_ + 1) % overrides.bucket_count();
    }
    publish_count();
    look_for_damage();
    return looks;
}

bool LiveLimitsWriter::is_superseded() const {
    return header().last_generation.load(relaxed) != generation_;
}

bool LiveLimitsWriter::has_newer(const Hash &identity, uint64_t version) const {
    if (newer_ == Newer::replaced) {
        return false;
    }
    const microseconds valid = LiveLimits::to_time(header().valid_generation.load(relaxed));
    const auto known = limits_.overrides_.find(identity, valid);
    return known && LiveLimits::version_of(*known) > version;
}

/// Returns false if there was no room. Overrides of an older generation make room: each of them is
/// either set again by this one or gone from Redis. But one that was dropped takes no place of one
/// that holds, and may come later.
bool LiveLimitsWriter::store(const Hash &identity, const Override &what, uint64_t version) {
    SharedTable &overrides = limits_.overrides_;
    const microseconds own = LiveLimits::to_time(generation_);
    const microseconds valid = LiveLimits::to_time(header().valid_generation.load(relaxed));
    const Record record = LiveLimits::to_record(what, generation_, version);
    const bool is_new = !overrides.find(identity, own);
    to_keep_ -= to_keep_ > 0 && is_new && overrides.find(identity, valid) ? 1 : 0;
    // This comes first: may_override() must not say no while there is something to find.
    header().overridden_by.store(generation_, relaxed);
    const bool may_replace = to_keep_ == 0;
    if (!overrides.store_if_free(identity, record, valid) &&
        !(may_replace && overrides.store_if_free(identity, record, own))) {
        header().dropped.fetch_add(1, relaxed);
        header().is_short_of_room.store(true, relaxed);
        has_dropped_ = true;
        return false;
    }
    count_ += is_new ? 1 : 0;
    publish_count();
    return true;
}

/// Before the generation is complete, what it does not have makes no room: Redis lists deleted
/// overrides for an hour. Afterwards it may be one that was dropped.
void LiveLimitsWriter::erase(const Hash &identity) {
    SharedTable &overrides = limits_.overrides_;
    const bool was_there = overrides.find(identity, LiveLimits::to_time(generation_)).has_value();
    count_ -= was_there ? 1 : 0;
    has_made_room_ = has_made_room_ || was_there || is_valid();
    overrides.erase(identity);
    publish_count();
}

/// Nothing is published before the generation is complete, because older overrides still hold.
void LiveLimitsWriter::publish_count() {
    if (!is_valid()) {
        return;
    }
    header().count.store(count_, relaxed);
    if (count_ == 0) {
        // Another process that has begun a generation since, and has set something, keeps its word.
        uint64_t own = header().overridden_by.load(relaxed);
        if (own <= generation_) {
            header().overridden_by.compare_exchange_strong(own, 0, relaxed);
        }
    }
}

/// Tells the process that has superseded this one that a write may have come between its own. If it
/// begins later, it will find the write done: this reads the number by an exchange, which orders
/// the two.
void LiveLimitsWriter::look_for_damage() const {
    const uint64_t last = header().last_generation.fetch_add(0, acquire_release);
    if (last != generation_) {
        raise(header().damaged_generation, last, release);
    }
}

} // namespace rate_limit
