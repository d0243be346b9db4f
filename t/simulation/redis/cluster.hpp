// A cluster, whose hash slots move while it is asked, and whose masters die.
#pragma once

#include "simulation/redis/cluster_nodes.hpp"
#include "simulation/redis/redis_faults.hpp"
#include "simulation/redis/topology.hpp"

#include <cstdint>
#include <functional>
#include <optional>

namespace simulation {

class SimulatedCluster final : public Topology {
  public:
    explicit SimulatedCluster(Simulation &simulation);

    void configure(redis_client::BackendSettings &settings) const override;
    void go_wrong() override;
    void lose_newest() override { lose_master(); }
    void recover() override;
    const SimulatedRedis &redis_of(uint16_t hash_slot) const override;
    bool may_have_overrides(const Server &server) const override;
    void on_data_changed(SimulatedRedis &redis, std::optional<uint16_t> hash_slot) override;

  private:
    uint16_t draw_hash_slot();
    uint8_t draw_shard_but(uint8_t shard);
    uint8_t shard_of(uint16_t hash_slot);
    void keep_moving();
    void begin_move();
    void doubt_expiry_of_overrides(uint16_t hash_slot, const SimulatedRedis &one,
                                   const SimulatedRedis &other);
    void move_keys(uint16_t hash_slot, uint8_t to);
    void promote_replica(uint8_t shard, Time known_up_to);
    std::optional<uint8_t> draw_settled_shard();
    void lose_master();
    void switch_master();
    void disagree();
    void leave_unserved();
    void be_down();
    void inform_all_later();
    void later(int64_t at_most_us, std::function<void()> what);

    RedisFaults faults_;
    ClusterNodes nodes_;
    bool is_over_ = false;
};

} // namespace simulation
