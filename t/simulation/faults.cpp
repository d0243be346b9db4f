#include "simulation/faults.hpp"

#include <algorithm>

namespace simulation {

/// Killed workers take their memory with them, as it was.
Faults::~Faults() {
    for (auto &worker : killed_) {
        (void)worker.release();
    }
}

void Faults::happen_until(Time end) {
    end_ = end;
    go_on();
}

void Faults::go_on() {
    Timeline &timeline = simulation_.timeline;
    timeline.add(timeline.now() + Time{simulation_.chance.between(10'000, 1'500'000)}, [this] {
        if (simulation_.timeline.now() < end_) {
            happen();
            go_on();
        }
    });
}

void Faults::happen() {
    Chance &chance = simulation_.chance;
    SimulatedHost &host = *hosts_[chance.below(hosts_.size())];
    const size_t i = chance.below(host.workers().size());
    switch (chance.below(8)) {
    case 0:
        simulation_.write("Redis stands still");
        simulation_.network.stalled_until =
            simulation_.timeline.now() + Time{chance.between(1'000, 300'000)};
        break;
    case 1:
        end_redis();
        break;
    case 2:
        simulation_.write("SCRIPT FLUSH");
        ++simulation_.happened.forgotten_scripts;
        simulation_.redis.forget_scripts();
        break;
    case 3:
        stop_worker(*host.workers()[i]);
        break;
    case 4:
        simulation_.write("a worker is killed");
        ++simulation_.happened.killed_workers;
        replace_worker(host, i, true);
        break;
    case 5:
        simulation_.write("a worker leaves");
        ++simulation_.happened.reloads;
        replace_worker(host, i, false);
        break;
    case 6:
        simulation_.write("Redis loads its data");
        set_mood(SimulatedRedis::Mood::loading);
        break;
    default:
        simulation_.write("Redis is a replica");
        set_mood(SimulatedRedis::Mood::read_only);
    }
}

/// Redis is down for a while, and may have lost its data when it is there again.
void Faults::end_redis() {
    simulation_.write("Redis is down");
    ++simulation_.happened.outages;
    Network &network = simulation_.network;
    network.is_down = true;
    const auto connections = network.connections;
    std::ranges::for_each(connections, &SimulatedConnection::cut);
    const bool loses_data = simulation_.chance.one_in(2);
    const Time until =
        simulation_.timeline.now() + Time{simulation_.chance.between(1'000, 500'000)};
    simulation_.timeline.add(until, [this, loses_data] {
        simulation_.network.is_down = false;
        if (loses_data) {
            simulation_.write("without its data");
            ++simulation_.happened.lost_data;
            simulation_.redis.lose_data();
            simulation_.auditor.lose_data(simulation_.timeline.now().count());
        }
    });
}

void Faults::stop_worker(SimulatedWorker &worker) {
    simulation_.write("a worker stands still");
    ++simulation_.happened.stopped_workers;
    worker.stop_until(simulation_.timeline.now() +
                      Time{simulation_.chance.between(1'000, 400'000)});
    clients_.note_stop(worker);
}

void Faults::set_mood(SimulatedRedis::Mood mood) {
    simulation_.redis.set_mood(mood);
    simulation_.timeline.add(simulation_.timeline.now() +
                                 Time{simulation_.chance.between(1'000, 200'000)},
                             [this] { simulation_.redis.set_mood(SimulatedRedis::Mood::well); });
}

void Faults::replace_worker(SimulatedHost &host, size_t i, bool is_killed) {
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
