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
        : simulation_(simulation), hosts_(hosts), clients_(clients) {}
    ~Faults();
    Faults(const Faults &) = delete;
    Faults &operator=(const Faults &) = delete;

    /// They happen from now on until then.
    void happen_until(Time end);
    /// Whether a worker was killed.
    bool have_killed() const { return !killed_.empty(); }

  private:
    void happen();
    void stop_worker(SimulatedWorker &worker);
    void replace_worker(SimulatedHost &host, size_t i, bool is_killed);

    Simulation &simulation_;
    Hosts &hosts_;
    Clients &clients_;
    std::vector<std::unique_ptr<SimulatedWorker>> killed_; // their memory stays as it was
};

} // namespace simulation
