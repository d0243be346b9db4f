#include "simulation/simulation.hpp"

#include "rate_limit/calendar/time_zone.hpp"

#include <memory>
#include <utility>

namespace simulation {

namespace {

/// What this draws changes nothing that the seed draws else.
FixedWindows draw_fixed_windows(uint64_t seed) {
    if (rate_limit::has_time_zones() && Chance(seed ^ 0xCA43).one_in(8)) {
        return FixedWindows::of_calendars;
    }
    return Chance(seed ^ 0xA119).one_in(4) ? FixedWindows::aligned
                                           : FixedWindows::begun_by_requests;
}

} // namespace

Simulation::Simulation(const Plan &its_plan, Journal &its_journal)
    : plan(its_plan),
      fixed_windows(draw_fixed_windows(plan.seed)),
      has_debts(!Chance(plan.seed ^ 0xDEB7).one_in(3)),
      chance(plan.seed),
      journal(its_journal),
      network(timeline, chance.fork()),
      has_faults(!chance.one_in(4)),
      loses_newest(has_faults && Chance(plan.seed ^ 0x01DE).one_in(8)),
      topology(make_topology(*this)) {
    const uint64_t one_fault_in = has_faults ? 20 + chance.below(2000) : 0;
    network.one_fault_in = plan.skipped.contains(0) || loses_newest ? 0 : one_fault_in;
    network.on_fault = [this](const Server *server) {
        if (server == nullptr || topology->may_have_overrides(*server)) {
            disturb(Time{1'500'000});
        }
    };
}

namespace {

constexpr Time between_looks{100};
constexpr size_t longest_aim = 1000; // looks

} // namespace

/// What happens at last, and again.
struct Simulation::Repeated {
    Time end;
    Time shortest_pause;
    Time longest_pause;
    std::function<void()> what;
    Chance chance;
};

void Simulation::repeat(Time end, Time shortest_pause, Time longest_pause,
                        std::function<void()> what) {
    wait_for(std::make_shared<Repeated>(
        Repeated{end, shortest_pause, longest_pause, std::move(what), chance.fork()}));
}

void Simulation::wait_for(const std::shared_ptr<Repeated> &next) {
    const Time pause{
        next->chance.between(next->shortest_pause.count(), next->longest_pause.count())};
    timeline.add(timeline.now() + pause, [this, next] { aim(next, longest_aim); });
}

/// Lets it happen when something is on its way, or else after so many looks. Each fourth happens at
/// once, whatever it hits.
void Simulation::aim(const std::shared_ptr<Repeated> &next, size_t looks) {
    if (looks > 0 && !network.is_busy() && events_ % 4 != 0) {
        timeline.add(timeline.now() + between_looks, [this, next, looks] { aim(next, looks - 1); });
    } else if (timeline.now() < next->end) {
        happen(next->what);
        wait_for(next);
    }
}

/// An event has a chance of its own, so that one that is skipped changes no other one's draws.
void Simulation::happen(const std::function<void()> &what) {
    const uint64_t number = ++events_;
    if (plan.skipped.contains(number)) {
        return;
    }
    const Chance of_others = std::exchange(chance, Chance(plan.seed ^ (number << 40)));
    what();
    chance = of_others;
}

} // namespace simulation
