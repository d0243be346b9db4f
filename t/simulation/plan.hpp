// What a simulation is to be: with the code it decides all that happens.
#pragma once

#include "simulation/timeline.hpp"

#include <cstdint>
#include <set>

namespace simulation {

struct Plan {
    uint64_t seed = 1;
    Time length{10'000'000}; // for so long clients come
    /// What does not happen, of all that goes wrong and that operators do, in the order of its
    /// times from 1 on. 0 stands for all faults of the network.
    std::set<uint64_t> skipped = {};
};

} // namespace simulation
