// The zones of a backend, into whose shared memory one worker writes what operators have set.
#pragma once

#include "limiter/configuration.hpp"
#include "limiter/live/live_log.hpp"
#include "rate_limit/tables/live_limits_writer.hpp"
#include "redis_client/control/live_follower.hpp"
#include "redis_client/io/world.hpp"

#include <chrono>
#include <span>
#include <string_view>
#include <vector>

namespace limiter {

class FollowedZones final : public redis_client::LiveFollower::Callbacks {
  public:
    FollowedZones(const redis_client::BackendSettings &settings, std::span<const Zone *const> zones,
                  redis_client::World &world, LiveLog &log);
    FollowedZones(const FollowedZones &) = delete;
    FollowedZones &operator=(const FollowedZones &) = delete;

    void on_begin(redis_client::LiveReading reading) override;
    void on_end() override;
    void on_change(const redis_client::LiveChange &change) override;
    void on_missed_resets() override;
    void on_lost_store() override;

    /// Makes room for others where overrides have expired: some of it at each call.
    void remove_expired();
    /// Whether a full synchronisation is due: a worker that was stopped has written late, or there
    /// may be room for overrides that had none.
    bool need_all_anew() const;

  private:
    struct Followed {
        const Zone *zone;
        rate_limit::LiveLimitsWriter writer;

        std::string_view name() const { return zone->name; }
    };

    void set(Followed &followed, const redis_client::LiveChange &change);

    std::chrono::microseconds redis_now() const {
        return settings_.memory.redis_now(world_.precise_now());
    }

    const redis_client::BackendSettings &settings_;
    redis_client::World &world_;
    LiveLog &log_;
    std::vector<Followed> zones_; // by their names
    size_t next_zone_ = 0;        // where remove_expired() goes on
    std::chrono::milliseconds look_for_room_from_{0};
};

} // namespace limiter
