#include "nginx_module/backend/followed_zones.hpp"

#include "nginx_module/util.hpp"

#include <algorithm>

namespace nginx_module {

using redis_client::LiveChange;

FollowedZones::FollowedZones(const MainConf &conf, const BackendConf &backend, ngx_log_t *log)
    : backend_(backend), log_(log) {
    for (const auto &zone : conf.zones) {
        if (zone->backend == &backend) {
            zones_.push_back({.conf = zone.get(),
                              .writer = rate_limit::LiveLimitsWriter(zone->memory.live_limits())});
        }
    }
    std::ranges::sort(zones_, {}, &Zone::name);
}

void FollowedZones::on_begin() {
    for (Zone &zone : zones_) {
        zone.writer.begin_generation();
    }
}

void FollowedZones::on_end() {
    for (Zone &zone : zones_) {
        zone.writer.end_generation();
    }
}

void FollowedZones::on_change(const LiveChange &change) {
    const auto zone = std::ranges::lower_bound(zones_, change.name.zone, {}, &Zone::name);
    if (zone == zones_.end() || zone->name() != change.name.zone) {
        return; // other hosts have it
    }
    if (change.name.is_reset) {
        zone->writer.reset(change.name.encoded_key, change.version, precise_now());
    } else if (change.is_tombstone) {
        zone->writer.remove({.encoded_key = change.name.encoded_key, .rule = change.name.rule});
    } else {
        set(*zone, change);
    }
}

void FollowedZones::set(Zone &zone, const LiveChange &change) {
    const bool is_first = zone.conf->memory.live_limits().dropped() == 0;
    const bool has_room =
        zone.writer.set({.encoded_key = change.name.encoded_key, .rule = change.name.rule},
                        change.override.what, backend_.memory.redis_now(precise_now()));
    if (!has_room && is_first) {
        ngx_str_t name = to_ngx(zone.conf->name);
        ngx_log_error(NGX_LOG_ERR, log_, 0,
                      "redis_rate_limit_zone \"%V\" has no room for all overrides, "
                      "some do not hold on this host: it takes a larger zone",
                      &name);
    }
}

void FollowedZones::on_missed_resets() {
    for (Zone &zone : zones_) {
        zone.writer.reset_all(precise_now());
    }
}

void FollowedZones::on_lost_store() {
    ngx_str_t name = to_ngx(backend_.name);
    ngx_log_error(NGX_LOG_WARN, log_, 0,
                  "redis_rate_limit: backend \"%V\" has lost what operators had set, "
                  "the configured limits hold again",
                  &name);
}

void FollowedZones::remove_expired() {
    constexpr size_t most_looks = 16'384; // at buckets, so that no number of zones takes long
    size_t looks = 0;
    for (size_t i = 0; i < zones_.size() && looks < most_looks; ++i) {
        next_zone_ = (next_zone_ + 1) % zones_.size();
        looks += zones_[next_zone_].writer.remove_expired(backend_.memory.redis_now(precise_now()));
    }
}

bool FollowedZones::need_all_anew() const {
    return std::ranges::any_of(zones_,
                               [](const Zone &zone) { return zone.writer.needs_generation(); });
}

} // namespace nginx_module
