// Makes of a simulation in which something is wrong the smallest one that is found.
#pragma once

#include "simulation/plan.hpp"

#include <cstdint>
#include <functional>

namespace simulation {

/// Whether something is wrong in a simulation, and of how many events it has, but for those of the
/// network.
struct Outcome {
    bool is_wrong = false;
    uint64_t events = 0;
};

/// Returns a plan that is shorter and skips what it can. `run` must find something wrong in the
/// plan.
Plan shrink(Plan plan, const std::function<Outcome(const Plan &)> &run);

} // namespace simulation
