// A host of a simulation: the memory that its workers share, their configurations, and the workers.
#pragma once

#include "simulation/host_configuration.hpp"
#include "simulation/simulated_worker.hpp"

#include "rate_limit/metrics/rule_counters.hpp"
#include "redis_client/link/backend_memory.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace simulation {

class SimulatedHost final : limiter::ZoneMutex, rate_limit::Machine {
  public:
    /// What hosts have each for itself.
    struct Machinery {
        size_t number;
        Time ahead;       // of the timeline: its clocks
        size_t zone_size; // bytes
        size_t workers;
    };

    SimulatedHost(Network &network, const Machinery &machinery, Chance chance,
                  std::unique_ptr<HostConfiguration> configuration);

    /// The configuration of new workers.
    HostConfiguration &configuration() { return *configurations_.back(); }
    /// All workers leave, and others with this configuration come.
    void reload(std::unique_ptr<HostConfiguration> configuration);
    std::vector<std::unique_ptr<SimulatedWorker>> &workers() { return workers_; }
    SimulatedWorker &add_worker();
    /// Returns one to which requests may come.
    SimulatedWorker &draw_serving_worker(Chance &chance) const;
    /// What the rule of that name has counted; nothing if the latest configuration has none.
    rate_limit::RuleCounts counts(std::string_view rule) const;

    /// What all workers have counted of their Redis, and where they stand.
    rate_limit::BackendCounts backend_counts() const {
        return configurations_.back()->settings().memory.read(*this, boot_now());
    }

    /// Whether what operators set is followed, and if not, why.
    redis_client::LiveTrouble live_trouble() const {
        return configurations_.back()->settings().memory.live_trouble();
    }
    /// How often its workers have told that all was lost that operators had set.
    size_t lost_stores() const;

    /// How many workers it has had.
    size_t begun_workers() const { return static_cast<size_t>(last_process_); }
    /// Whether no worker has come after those that it has begun with.
    bool has_first_workers() const { return begun_workers() == machinery_.workers; }

    size_t number() const { return machinery_.number; }
    /// Whether its clock shows a year that no other one has.
    bool is_years_off() const { return machinery_.ahead > std::chrono::days{300}; }

    /// Returns what the timeline showed when World::boot_now(), or precise_now(), was this.
    Time time_of_boot_clock(Time boot_time) const {
        return Timeline::of_boot_clock(boot_time - machinery_.ahead);
    }

  private:
    struct alignas(64) Line {
        std::byte bytes[64];
    };

    void lock() const override {}
    void unlock() const override {}
    Time boot_now() const override { return network_.timeline.since_boot() + machinery_.ahead; }
    bool is_alive(pid_t process) const override;

    Network &network_;
    Machinery machinery_;
    Chance chance_;
    std::vector<Line> backend_memory_;
    std::vector<Line> zone_memory_;
    std::vector<std::unique_ptr<HostConfiguration>> configurations_; // the latest is the last one
    std::vector<std::unique_ptr<SimulatedWorker>> workers_;
    pid_t last_process_ = 0;
};

} // namespace simulation
