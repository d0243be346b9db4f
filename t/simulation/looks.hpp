// Looks at what Redis knows of a client, as operators have them by the API. Nothing is charged.
#pragma once

#include "simulation/simulated_worker.hpp"
#include "simulation/simulation.hpp"

#include <memory>
#include <string>
#include <vector>

namespace simulation {

/// Returns what a verdict tells, as the auditor takes it.
Told told_of(const rate_limit::Verdict &verdict);

class Looks {
  public:
    explicit Looks(Simulation &simulation);
    ~Looks();
    Looks(const Looks &) = delete;
    Looks &operator=(const Looks &) = delete;

    /// Redis has decided about the client. Where nothing goes wrong somebody sometimes looks at him
    /// before long.
    void on_decision(SimulatedWorker &worker, size_t rule, const std::string &key,
                     const limiter::AppliedRule &applied);

  private:
    class Look;

    Simulation &simulation_;
    Chance chance_; // of its own: other draws stay as they are
    std::vector<std::unique_ptr<Look>> looks_;
};

} // namespace simulation
