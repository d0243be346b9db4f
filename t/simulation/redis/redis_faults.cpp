#include "simulation/redis/redis_faults.hpp"

#include "simulation/simulation.hpp"

#include <string>
#include <utility>
#include <vector>

namespace simulation {

/// Whether faults last changes nothing that the seed draws else.
RedisFaults::RedisFaults(Simulation &simulation, Topology &topology)
    : simulation_(simulation),
      topology_(topology),
      lasting_(Chance(simulation.plan.seed ^ 0x1A57).one_in(3)) {}

Time RedisFaults::soon(int64_t at_most_us) {
    return simulation_.timeline.now() + Time{simulation_.chance.between(1'000, at_most_us)};
}

void RedisFaults::write(const SimulatedRedis &redis, const char *what) {
    simulation_.write(redis.address() + " " + what);
}

void RedisFaults::happen(SimulatedRedis &redis) {
    Chance &chance = simulation_.chance;
    switch (chance.below(12)) {
    case 0:
    case 1:
        write(redis, "stands still");
        redis.stall_until(soon(300'000));
        break;
    case 2:
        end(redis);
        break;
    case 3:
        write(redis, "SCRIPT FLUSH");
        simulation_.hit(&Happened::forgotten_scripts);
        redis.forget_scripts();
        break;
    case 4:
        write(redis, "gives a reply that is none");
        redis.lie_once(chance.next());
        break;
    case 5:
        write(redis, "FLUSHALL");
        simulation_.hit(&Happened::flushed);
        lose_data(redis);
        break;
    case 6:
        step_clock(redis);
        break;
    case 7:
        change_password(redis);
        break;
    case 8:
        spoil_key(redis);
        break;
    case 9:
        write(redis, "takes no more clients");
        redis.full_until = soon(1'000'000);
        break;
    default:
        change_mood(redis);
    }
}

void RedisFaults::end(SimulatedRedis &redis) {
    const bool loses_data = simulation_.chance.one_in(2);
    if (loses_data && redis.remembers_writes() && simulation_.chance.one_in(2)) {
        restart_older(redis);
        return;
    }
    write(redis, "is down");
    simulation_.hit(loses_data ? &Happened::lost_data : &Happened::outages);
    be_down_for_a_while(redis, [this, &redis, loses_data] {
        if (loses_data) {
            write(redis, "is there again without its data");
            lose_data(redis);
        }
    });
}

void RedisFaults::restart_older(SimulatedRedis &redis) {
    write(redis, "is down");
    simulation_.hit(&Happened::older_data);
    const Time snapshot = topology_.draw_known_up_to();
    be_down_for_a_while(redis, [this, &redis, snapshot] {
        write(redis, "is there again with an older snapshot");
        topology_.bring_back(redis, snapshot);
    });
}

void RedisFaults::be_down_for_a_while(SimulatedRedis &redis, std::function<void()> what) {
    redis.is_down = true;
    simulation_.network.cut(redis);
    simulation_.timeline.add(soon(500'000), [&redis, what = std::move(what)] {
        redis.is_down = false;
        what();
    });
}

/// A quota may be granted once more.
void RedisFaults::lose_data(SimulatedRedis &redis) {
    redis.lose_data();
    const Time now = simulation_.timeline.now();
    redis.histories().set_all(now, topology_.begin_history());
    topology_.note_lost_overrides(redis);
    topology_.on_data_changed(redis, std::nullopt);
}

void RedisFaults::change_mood(SimulatedRedis &redis) {
    const uint64_t mood = 1 + simulation_.chance.below(SimulatedRedis::moods_of_all);
    simulation_.write(redis.address() + " is in mood " + std::to_string(mood));
    redis.set_mood(static_cast<SimulatedRedis::Mood>(mood));
    const bool only_refuses_writes = !redis.refusal_of_writes(simulation_.timeline.now()).empty();
    simulation_.timeline.add(soon(only_refuses_writes && lasting_ ? 4'000'000 : 200'000),
                             [&redis] { redis.set_mood(SimulatedRedis::Mood::well); });
}

/// Clients that are logged in stay so.
void RedisFaults::change_password(SimulatedRedis &redis) {
    static constexpr const char *other = "another one";
    const std::string password = redis.access().password;
    if (password.empty() || password == other) {
        return;
    }
    write(redis, "has another password");
    simulation_.disturb(Time{12'000'000}); // a worker waits for up to 10 s before it tries again
    simulation_.hit(&Happened::changed_passwords);
    redis.set_password(other);
    if (simulation_.chance.one_in(2)) {
        simulation_.network.cut(redis);
    }
    simulation_.timeline.add(soon(500'000), [&redis, password] { redis.set_password(password); });
}

/// The step is as often some milliseconds as it is some minutes. After one forward what was taken
/// comes back early, and a quota may be granted once more; after one backward nothing may.
void RedisFaults::step_clock(SimulatedRedis &redis) {
    Chance &chance = simulation_.chance;
    const Time step{chance.between(1, int64_t{1} << chance.between(10, 31))};
    const Time now = simulation_.timeline.now();
    if (chance.one_in(2)) {
        simulation_.write(redis.address() + " steps its clock back by " +
                          std::to_string(step.count()));
        simulation_.hit(&Happened::clocks_back);
        redis.step_clock(-step);
        topology_.note_step_back(step);
    } else {
        simulation_.write(redis.address() + " steps its clock forward by " +
                          std::to_string(step.count()));
        simulation_.hit(&Happened::clocks_forward);
        redis.step_clock(step);
        redis.histories().set_all(now, topology_.begin_history());
    }
    topology_.doubt_overrides_of(redis);
    topology_.on_data_changed(redis, std::nullopt);
}

/// Somebody else writes a key, of a type that no script of ours makes. When it is deleted, what it
/// has held is lost.
void RedisFaults::spoil_key(SimulatedRedis &redis) {
    const std::vector<std::string> names = redis.keys().names();
    if (names.empty()) {
        return;
    }
    const std::string name = names[simulation_.chance.below(names.size())];
    if (!spoilt_.insert(name).second) {
        return; // a third type may be the one that scripts make
    }
    simulation_.write(redis.address() + " has a value of another type at " + name);
    redis.spoil(name);
    topology_.excuse_life(name);
    simulation_.timeline.add(soon(lasting_ ? 4'000'000 : 500'000), [this, name] {
        topology_.lose_key(name);
        spoilt_.erase(name);
    });
}

} // namespace simulation
