// One Redis, which may have a name, and with it move to other addresses.
#pragma once

#include "simulation/redis/redis_faults.hpp"
#include "simulation/redis/topology.hpp"

#include <string>

namespace simulation {

class Standalone final : public Topology {
  public:
    explicit Standalone(Simulation &simulation);

    void configure(redis_client::BackendSettings &settings) const override;
    void go_wrong() override;
    void lose_newest() override { faults_.restart_older(*redis_[0]); }
    SimulatedRedis *only_redis() override { return redis_[0].get(); }
    const SimulatedRedis &redis_of(uint16_t hash_slot) const override;
    Time trouble() const override { return Time{3'000'000}; }
    void note_lost_overrides(const SimulatedRedis &redis) override;

  private:
    void move();
    void be_replica();

    RedisFaults faults_;
    bool has_name_;
    uint64_t moves_ = 0;
};

} // namespace simulation
