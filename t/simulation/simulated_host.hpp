// A host of a simulation: a configuration, the memory that its workers share, and the workers.
#pragma once

#include "limiter/linking.hpp"
#include "limiter/zone_memory.hpp"
#include "simulation/drawn_rules.hpp"
#include "simulation/redis/topology.hpp"
#include "simulation/simulated_worker.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace simulation {

class SimulatedHost final : limiter::ZoneMutex, rate_limit::Machine {
  public:
    /// `ahead` is what its clocks are ahead of the timeline.
    SimulatedHost(Network &network, const Topology &topology, Time ahead, Chance chance,
                  const std::vector<RuleWords> &rules, rate_limit::OnError on_error,
                  size_t workers);

    const limiter::RuleList &level() const { return level_; }
    std::vector<std::unique_ptr<SimulatedWorker>> &workers() { return workers_; }
    SimulatedWorker &add_worker();
    /// Returns one to which requests may come.
    SimulatedWorker &draw_serving_worker(Chance &chance) const;
    /// In how many outcomes the rule's requests are.
    uint64_t outcomes(size_t rule) const;

    /// Returns what the timeline showed when World::boot_now() was this.
    Time time_of_boot_clock(Time boot_time) const {
        return Timeline::of_boot_clock(boot_time - ahead_);
    }

    static constexpr std::chrono::milliseconds timeout{100};

  private:
    struct alignas(64) Line {
        std::byte bytes[64];
    };
    static constexpr size_t zone_size = size_t{1} << 20;

    void lock() const override {}
    void unlock() const override {}
    Time boot_now() const override { return network_.timeline.since_boot() + ahead_; }
    bool is_alive(pid_t process) const override;

    Network &network_;
    Time ahead_;
    Chance chance_;
    std::vector<Line> backend_memory_;
    std::vector<Line> zone_memory_{zone_size / sizeof(Line)};
    redis_client::BackendSettings settings_{0, "default"};
    limiter::Zone zone_;
    std::deque<limiter::Rule> rules_;
    limiter::RuleList level_;
    std::vector<std::unique_ptr<SimulatedWorker>> workers_;
    pid_t last_process_ = 0;
};

} // namespace simulation
