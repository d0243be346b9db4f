// What all parts of a simulation share: its chance, its time, its servers, and who watches.
#pragma once

#include "simulation/auditor.hpp"
#include "simulation/chance.hpp"
#include "simulation/drawn_rules.hpp"
#include "simulation/happened.hpp"
#include "simulation/journal.hpp"
#include "simulation/network.hpp"
#include "simulation/plan.hpp"
#include "simulation/redis/topology.hpp"
#include "simulation/timeline.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace simulation {

struct Simulation {
    Simulation(const Plan &its_plan, Journal &its_journal);
    Simulation(const Simulation &) = delete;
    Simulation &operator=(const Simulation &) = delete;

    /// Something is wrong for so long that keeps hosts from hearing of changes.
    void disturb(Time length) {
        auditor.overrides.disturb(timeline.now().count(), (timeline.now() + length).count());
    }
    /// Counts a fault, if something is on its way that it can hit.
    void hit(uint64_t Happened::*fault) { happened.*fault += network.is_busy() ? 1 : 0; }
    void write(std::string_view line) { journal.write(timeline.now(), line); }
    /// Lets something happen again and again until then, each time after such a pause, and mostly
    /// when something is on its way. Each time is an event, which the plan may skip.
    void repeat(Time end, Time shortest_pause, Time longest_pause, std::function<void()> what);
    /// Nothing will go wrong, though the seed has said so.
    void leave_out_faults() {
        has_faults = false;
        network.one_fault_in = 0;
    }
    /// Whether nothing goes wrong, and one Redis has all data from begin to end.
    bool has_one_sound_redis() const { return !has_faults && topology->only_redis() != nullptr; }
    uint64_t events() const { return events_; }
    bool has_calendars() const { return fixed_windows == FixedWindows::of_calendars; }

    const Plan plan;
    const FixedWindows fixed_windows;
    const bool has_debts; // some requests turn out to cost more than they reserved
    Chance chance;
    Journal &journal;
    Timeline timeline;
    Network network;
    Auditor auditor;
    Happened happened;
    bool has_faults;
    /// Redis loses what was written last, and nothing else goes wrong: what hosts know is judged
    /// then.
    const bool loses_newest;
    std::unique_ptr<Topology> topology;

  private:
    struct Repeated;
    void wait_for(const std::shared_ptr<Repeated> &next);
    void aim(const std::shared_ptr<Repeated> &next, size_t looks);
    void happen(const std::function<void()> &what);

    uint64_t events_ = 0;
};

} // namespace simulation
