// A master with replicas that lag, and Sentinels that say which of them is the master.
#pragma once

#include "simulation/redis/redis_faults.hpp"
#include "simulation/redis/simulated_sentinel.hpp"
#include "simulation/redis/topology.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace simulation {

class Sentinels final : public Topology {
  public:
    explicit Sentinels(Simulation &simulation);

    void configure(redis_client::BackendSettings &settings) const override;
    void go_wrong() override;
    void lose_newest() override { lose_master(); }
    bool tells_of_masters() const override { return lost_ == nullptr; }
    const SimulatedRedis &redis_of(uint16_t hash_slot) const override;

  private:
    void switch_master();
    void lose_master();
    void promote_another(Time known_up_to);
    void demote(SimulatedRedis &redis);
    void tell(SimulatedSentinel &sentinel);
    void fail_sentinel();
    void later(int64_t at_most_us, std::function<void()> what);

    RedisFaults faults_;
    SimulatedSentinel::Access sentinel_access_;
    std::vector<std::unique_ptr<SimulatedSentinel>> sentinels_;
    SimulatedRedis *master_;
    SimulatedSentinel *lost_ = nullptr; // it never hears of another master
};

} // namespace simulation
