#include "limiter/live/followed_zones.hpp"

#include <algorithm>

namespace limiter {

using redis_client::LiveChange;

namespace {

/// A full synchronisation takes time and traffic.
constexpr std::chrono::minutes between_looks_for_room{1};

} // namespace

FollowedZones::FollowedZones(const redis_client::BackendSettings &settings,
                             std::span<const Zone *const> zones, redis_client::World &world,
                             LiveLog &log)
    : settings_(settings), world_(world), log_(log) {
    for (const Zone *zone : zones) {
        zones_.push_back(
            {.zone = zone, .writer = rate_limit::LiveLimitsWriter(zone->memory.live_limits())});
    }
    std::ranges::sort(zones_, {}, &Followed::name);
}

void FollowedZones::on_begin(redis_client::LiveReading reading) {
    using Newer = rate_limit::LiveLimitsWriter::Newer;
    const bool is_older = reading == redis_client::LiveReading::of_older_store;
    look_for_room_from_ = world_.now() + between_looks_for_room;
    for (Followed &zone : zones_) {
        zone.writer.begin_generation(is_older ? Newer::kept : Newer::replaced);
    }
}

void FollowedZones::on_end() {
    for (Followed &zone : zones_) {
        zone.writer.end_generation();
    }
}

void FollowedZones::on_change(const LiveChange &change) {
    const auto zone = std::ranges::lower_bound(zones_, change.name.zone, {}, &Followed::name);
    if (zone == zones_.end() || zone->name() != change.name.zone) {
        return; // other hosts have it
    }
    if (change.name.is_reset) {
        zone->writer.reset(change.name.encoded_key, change.version, world_.precise_now());
    } else if (change.is_tombstone) {
        zone->writer.remove({.encoded_key = change.name.encoded_key, .rule = change.name.rule},
                            change.version);
    } else {
        set(*zone, change);
    }
}

void FollowedZones::set(Followed &followed, const LiveChange &change) {
    const bool was_short = followed.zone->memory.live_limits().is_short_of_room();
    const bool has_room =
        followed.writer.set({.encoded_key = change.name.encoded_key, .rule = change.name.rule},
                            change.override.what, redis_now(), change.version);
    if (!has_room && !was_short) {
        log_.on_no_room(followed.name());
    }
}

void FollowedZones::on_missed_resets() {
    for (Followed &zone : zones_) {
        zone.writer.reset_all(world_.precise_now());
    }
}

void FollowedZones::on_lost_store() {
    log_.on_lost_store(settings_.name);
}

void FollowedZones::remove_expired() {
    constexpr size_t most_looks = 16'384; // at buckets, so that no number of zones takes long
    size_t looks = 0;
    for (size_t i = 0; i < zones_.size() && looks < most_looks; ++i) {
        next_zone_ = (next_zone_ + 1) % zones_.size();
        looks += zones_[next_zone_].writer.remove_expired(redis_now());
    }
}

bool FollowedZones::need_all_anew() const {
    const bool looks_for_room = world_.now() >= look_for_room_from_;
    return std::ranges::any_of(zones_, [&](const Followed &zone) {
        return zone.writer.needs_generation() ||
               (looks_for_room && zone.writer.may_have_room_for_dropped());
    });
}

} // namespace limiter
