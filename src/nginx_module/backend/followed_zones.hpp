// The zones of a backend, into whose shared memory one worker writes what operators have set.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/conf/configuration.hpp"
#include "rate_limit/tables/live_limits_writer.hpp"
#include "redis_client/control/live_follower.hpp"

#include <string_view>
#include <vector>

namespace nginx_module {

class FollowedZones final : public redis_client::LiveFollower::Callbacks {
  public:
    FollowedZones(const MainConf &conf, const BackendConf &backend, ngx_log_t *log);
    FollowedZones(const FollowedZones &) = delete;
    FollowedZones &operator=(const FollowedZones &) = delete;

    void on_begin() override;
    void on_end() override;
    void on_change(const redis_client::LiveChange &change) override;
    void on_missed_resets() override;
    void on_lost_store() override;

    /// Makes room for others where overrides have expired: some of it at each call.
    void remove_expired();
    /// Whether a full synchronisation is due, because a worker that was stopped has written late.
    bool need_all_anew() const;

  private:
    struct Zone {
        const limiter::Zone *conf;
        rate_limit::LiveLimitsWriter writer;

        std::string_view name() const { return conf->name; }
    };

    void set(Zone &zone, const redis_client::LiveChange &change);

    const BackendConf &backend_;
    ngx_log_t *log_;
    std::vector<Zone> zones_; // by their names
    size_t next_zone_ = 0;    // where remove_expired() goes on
};

} // namespace nginx_module
