// Visits every state that a run of the protocol can come to, the nearest ones first.
#pragma once

#include "setting.hpp"
#include "step.hpp"

#include <array>
#include <cstddef>
#include <string>

namespace protocol {

struct Exploration {
    size_t states = 0;
    std::array<size_t, Step::kinds> steps{}; // taken, by their kind
    /// One of the shortest runs that break the promise, a line for each step, which begins with its
    /// time. It is empty if no run does.
    std::string counterexample;
};

/// Stops at the first step that breaks the promise.
Exploration explore(const Setting &setting);

} // namespace protocol
