// What goes wrong in a simulation, one thing after the other. What the network does to single
// messages is in network.hpp.
#pragma once

#include "simulation/clients.hpp"
#include "simulation/simulation.hpp"

#include <memory>
#include <vector>

namespace simulation {

class Faults {
  public:
    Faults(Simulation &simulation, Hosts &hosts, Clients &clients)
        : simulation_(simulation),
          hosts_(hosts),
          clients_(clients),
          harmless_(simulation.plan.seed ^ 0x4A21) {}
    ~Faults();
    Faults(const Faults &) = delete;
    Faults &operator=(const Faults &) = delete;

    /// They happen from now on until then.
    void happen_until(Time end);
    /// What happens on a good day, and must change nothing: workers leave, Redis forgets scripts,
    /// and stands still for a moment. Not in all worlds.
    void happen_harmlessly_until(Time end);
    /// Whether a worker was killed.
    bool have_killed() const { return !killed_.empty(); }
    /// Whether a worker has left, or was killed, and another one has come.
    bool have_replaced() const { return have_replaced_; }
    /// Whether a worker has stood still.
    bool have_stopped() const { return have_stopped_; }

  private:
    void happen();
    void plan_harmless(Time end);
    void happen_harmlessly();
    SimulatedHost &draw_host(Chance &chance) { return *hosts_[chance.below(hosts_.size())]; }
    void stop_worker(SimulatedWorker &worker);
    void replace_worker(SimulatedHost &host, size_t i, bool is_killed);

    Simulation &simulation_;
    Hosts &hosts_;
    Clients &clients_;
    bool have_replaced_ = false;
    bool have_stopped_ = false;
    Chance harmless_; // of its own: other draws stay as they are
    std::vector<std::unique_ptr<SimulatedWorker>> killed_; // their memory is as it was
};

} // namespace simulation
