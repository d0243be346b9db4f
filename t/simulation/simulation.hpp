// What all parts of a simulation share: its chance, its time, its servers, and who watches.
#pragma once

#include "simulation/auditor.hpp"
#include "simulation/chance.hpp"
#include "simulation/happened.hpp"
#include "simulation/journal.hpp"
#include "simulation/network.hpp"
#include "simulation/redis/topology.hpp"
#include "simulation/timeline.hpp"

#include <cstdint>
#include <memory>
#include <string_view>

namespace simulation {

struct Simulation {
    Simulation(uint64_t seed, Journal &its_journal)
        : chance(seed),
          journal(its_journal),
          network(timeline, chance.fork()),
          has_faults(!chance.one_in(4)),
          topology(make_topology(*this)) {
        network.one_fault_in = has_faults ? 20 + chance.below(2000) : 0;
        network.on_fault = [this] { disturb(Time{1'500'000}); };
    }
    Simulation(const Simulation &) = delete;
    Simulation &operator=(const Simulation &) = delete;

    /// Something is wrong for so long that keeps hosts from hearing of changes.
    void disturb(Time length) {
        auditor.overrides.disturb(timeline.now().count(), (timeline.now() + length).count());
    }
    void write(std::string_view line) { journal.write(timeline.now(), line); }

    Chance chance;
    Journal &journal;
    Timeline timeline;
    Network network;
    Auditor auditor;
    Happened happened;
    bool has_faults;
    std::unique_ptr<Topology> topology;
};

} // namespace simulation
