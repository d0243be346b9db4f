// A fleet of hosts with their clients and one Redis, and all that can go wrong between them, from
// one seed.
#pragma once

#include "simulation/clients.hpp"
#include "simulation/faults.hpp"
#include "simulation/operators.hpp"
#include "simulation/reloads.hpp"
#include "simulation/simulation.hpp"

#include <string>
#include <vector>

namespace simulation {

class SimulatedFleet {
  public:
    SimulatedFleet(const Plan &plan, Journal &journal);

    /// Lets clients come, and then all become quiet. Returns what is wrong.
    std::vector<std::string> run();
    uint64_t events() const { return simulation_.events(); }
    /// Tells the observer what the only Redis replies. Returns false if there are several, or if
    /// something will go wrong, or a host's clock is.
    bool observe(SimulatedRedis::Observer &observer);
    const Happened &happened() const { return simulation_.happened; }

  private:
    void make_hosts();
    size_t draw_max_pending(Theme theme) const;
    void run_until(Time end);
    void judge_now_and_then(Time end);
    void judge_states();
    void become_quiet();
    void judge_calm();
    void judge_permits();
    void judge_failures(SimulatedHost &host, const rate_limit::BackendCounts &counts);
    void judge_backend(SimulatedHost &host, Time asked);
    void judge_live_trouble(redis_client::LiveTrouble trouble);
    void judge_log(const SimulatedHost &host, const SimulatedWorker &worker, Time asked);
    /// Tells it where no host had to make room in its memory.
    void tell_what_hosts_remember();
    void finish_requests();
    bool have_workers_left() const { return faults_.have_replaced() || reloads_.have_happened(); }
    void count_leased();
    void count_outcomes();
    void count_top_keys();
    void end_workers();

    Simulation simulation_;
    bool are_zones_smallest_ = false;
    Hosts hosts_;
    Clients clients_;
    Operators operators_;
    Faults faults_; // has killed workers, which know orders of operators
    Reloads reloads_;
};

} // namespace simulation
