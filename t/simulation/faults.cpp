#include "simulation/faults.hpp"

#include <algorithm>

namespace simulation {

/// Nobody looks any more at what killed workers have left as it was.
Faults::~Faults() {
    clients_.end_dead();
    for (const auto &worker : killed_) {
        worker->end();
    }
}

/// Most fleets have time to recover from one fault before the next. Others meet what is rare, and
/// two faults at once.
void Faults::happen_until(Time end) {
    if (simulation_.loses_newest) {
        simulation_.repeat(end, Time{2'500'000}, Time{5'000'000}, [this] {
            simulation_.disturb(simulation_.topology->trouble());
            simulation_.topology->lose_newest();
        });
        return;
    }
    const bool is_storm = simulation_.chance.one_in(3);
    simulation_.repeat(end, Time{10'000}, Time{is_storm ? 100'000 : 1'500'000},
                       [this] { happen(); });
}

void Faults::happen() {
    Chance &chance = simulation_.chance;
    SimulatedHost &host = draw_host(chance);
    const size_t i = chance.below(host.workers().size());
    const bool is_of_worker = chance.below(8) < 3;
    simulation_.disturb(is_of_worker ? Time{3'000'000} : simulation_.topology->trouble());
    if (!is_of_worker) {
        simulation_.topology->go_wrong();
        return;
    }
    switch (chance.below(3)) {
    case 0:
        stop_worker(*host.workers()[i]);
        break;
    case 1:
        simulation_.write("a worker is killed");
        simulation_.hit(&Happened::killed_workers);
        replace_worker(host, i, true);
        break;
    default:
        simulation_.write("a worker leaves");
        simulation_.hit(&Happened::reloads);
        replace_worker(host, i, false);
    }
}

void Faults::happen_harmlessly_until(Time end) {
    if (harmless_.one_in(2)) {
        plan_harmless(end);
    }
}

void Faults::plan_harmless(Time end) {
    const Time next = simulation_.timeline.now() + Time{harmless_.between(20'000, 1'000'000)};
    if (next < end) {
        simulation_.timeline.add(next, [this, end] {
            happen_harmlessly();
            plan_harmless(end);
        });
    }
}

void Faults::happen_harmlessly() {
    SimulatedRedis *redis = simulation_.topology->only_redis();
    const uint64_t what = redis == nullptr ? 2 : harmless_.below(3);
    if (what == 0) {
        simulation_.write("SCRIPT FLUSH");
        simulation_.hit(&Happened::forgotten_scripts);
        redis->forget_scripts();
    } else if (what == 1) {
        simulation_.write("Redis stands still for a moment");
        redis->stall_until(simulation_.timeline.now() + Time{harmless_.between(100, 20'000)});
    } else {
        simulation_.write("a worker leaves");
        simulation_.hit(&Happened::reloads);
        SimulatedHost &host = draw_host(harmless_);
        replace_worker(host, harmless_.below(host.workers().size()), false);
    }
}

void Faults::stop_worker(SimulatedWorker &worker) {
    have_stopped_ = true;
    simulation_.auditor.overrides.lose_worker(simulation_.timeline.now().count());
    simulation_.write("a worker stands still");
    simulation_.hit(&Happened::stopped_workers);
    worker.stop_until(simulation_.timeline.now() +
                      Time{simulation_.chance.between(1'000, 400'000)});
    clients_.note_stop(worker);
}

void Faults::replace_worker(SimulatedHost &host, size_t i, bool is_killed) {
    have_replaced_ = true;
    simulation_.auditor.overrides.lose_worker(simulation_.timeline.now().count());
    SimulatedWorker &worker = *host.workers()[i];
    host.add_worker();
    if (!is_killed) {
        worker.leave();
        return;
    }
    worker.kill();
    clients_.die_with(worker);
    killed_.push_back(std::move(host.workers()[i]));
    host.workers().erase(host.workers().begin() + static_cast<ptrdiff_t>(i));
}

} // namespace simulation
