// Reloads of all hosts, one after the other, with other rules and numbers.
#pragma once

#include "simulation/clients.hpp"
#include "simulation/drawn_rules.hpp"
#include "simulation/simulation.hpp"

namespace simulation {

class Reloads {
  public:
    Reloads(Simulation &simulation, const Hosts &hosts) : simulation_(simulation), hosts_(hosts) {}

    /// Sets what hosts are to have, and tells the auditor.
    void set_configuration(DrawnConfiguration drawn);
    /// Makes it for a host, which may be the last one.
    std::unique_ptr<HostConfiguration> make_configuration(bool is_last) const;
    const DrawnConfiguration &configuration() const { return drawn_; }
    bool have_happened() const { return have_happened_; }
    /// They happen from now on until then.
    void happen_until(Time end);

  private:
    void happen();

    Simulation &simulation_;
    const Hosts &hosts_;
    DrawnConfiguration drawn_;
    size_t first_number_ = 0;   // of its rules
    size_t configurations_ = 0; // so far
    bool have_happened_ = false;
};

} // namespace simulation
