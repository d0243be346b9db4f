#include "simulation/redis/sentinels.hpp"

#include "simulation/simulation.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace simulation {

Sentinels::Sentinels(Simulation &simulation) : Topology(simulation), faults_(simulation, *this) {
    Chance &chance = simulation.chance;
    const Time ahead = draw_ahead();
    // Clocks of servers differ by little, or nobody has set them.
    const int64_t most_apart_us = chance.one_in(2) ? 30'000 : 60'000'000;
    const size_t replicas = 1 + chance.below(2);
    for (size_t i = 0; i <= replicas; ++i) {
        add_redis("10.0.0." + std::to_string(i + 1) + ":6379",
                  ahead + Time{chance.between(-most_apart_us, most_apart_us)});
    }
    master_ = redis_[0].get();
    master_->remember_writes();
    for (size_t i = 1; i <= replicas; ++i) {
        redis_[i]->set_master(master_->address());
    }
    if (chance.one_in(2)) {
        sentinel_access_ = {chance.one_in(2) ? "watcher" : "", "hidden"};
    }
    const size_t sentinels = 2 + chance.below(2);
    for (size_t i = 0; i < sentinels; ++i) {
        const std::string address = "10.0.1." + std::to_string(i + 1) + ":26379";
        sentinels_.push_back(std::make_unique<SimulatedSentinel>(
            simulation.network.counts, address, sentinel_access_, master_->address()));
        simulation.network.servers[address] = sentinels_.back().get();
    }
    if (simulation.has_faults && chance.one_in(2)) {
        lost_ = sentinels_[chance.below(sentinels)].get();
    }
}

void Sentinels::configure(redis_client::BackendSettings &settings) const {
    configure_access(settings);
    settings.mode = redis_client::Mode::sentinel;
    settings.session.needs_master = true;
    settings.sentinel = {.master_name = std::string(SimulatedSentinel::master_name),
                         .username = sentinel_access_.username,
                         .password = sentinel_access_.password};
    for (const auto &sentinel : sentinels_) {
        settings.servers.push_back(server_at(sentinel->address()));
    }
}

void Sentinels::go_wrong() {
    switch (simulation_.chance.below(9)) {
    case 0:
    case 1:
        switch_master();
        break;
    case 2:
        lose_master();
        break;
    case 3:
    case 4:
    case 5:
        fail_sentinel();
        break;
    default:
        faults_.happen(draw_redis());
    }
}

void Sentinels::later(int64_t at_most_us, std::function<void()> what) {
    simulation_.timeline.add(simulation_.timeline.now() +
                                 Time{simulation_.chance.between(0, at_most_us)},
                             std::move(what));
}

/// Another one becomes the master, while the one before is well and hears of it a little later.
void Sentinels::switch_master() {
    simulation_.hit(&Happened::switched_masters);
    SimulatedRedis &old = *master_;
    promote_another(draw_known_up_to());
    later(300'000, [this, &old] { demote(old); });
}

/// The master is down until another one is promoted, and is then there again as a master, until it
/// hears that it is none.
void Sentinels::lose_master() {
    simulation_.write("the master is down");
    simulation_.hit(&Happened::lost_masters);
    SimulatedRedis &old = *master_;
    old.is_down = true;
    simulation_.network.cut(old);
    const Time known = draw_known_up_to();
    later(1'500'000, [this, &old, known] {
        if (&old != master_) {
            old.is_down = false; // another fault has ended its time before
            return;
        }
        promote_another(known);
        later(500'000, [this, &old] {
            simulation_.write("the old master is there again");
            old.is_down = false;
            later(300'000, [this, &old] { demote(old); });
        });
    });
}

/// A replica knows what was written up to a time. What was written since is lost.
void Sentinels::promote_another(Time known_up_to) {
    std::vector<SimulatedRedis *> others;
    for (const auto &redis : redis_) {
        if (redis.get() != master_) {
            others.push_back(redis.get());
        }
    }
    SimulatedRedis &chosen = *others[simulation_.chance.below(others.size())];
    simulation_.write(chosen.address() + " is the master");
    copy_data(*master_, known_up_to, chosen);
    chosen.set_master("");
    master_ = &chosen;
    for (const auto &redis : redis_) {
        if (!redis->is_master()) {
            redis->set_master(master_->address());
        }
    }
    for (const auto &sentinel : sentinels_) {
        // One of them may be slow to hear of it.
        later(simulation_.chance.one_in(4) ? 3'000'000 : 300'000,
              [this, &sentinel = *sentinel] { tell(sentinel); });
    }
}

void Sentinels::tell(SimulatedSentinel &sentinel) {
    if (&sentinel != lost_ && !sentinel.is_down && sentinel.master() != master_->address()) {
        simulation_.network.publish(sentinel, sentinel.hear(master_->address()));
    }
}

/// It hears that it is no master any more. Sentinels then end its connections, if they can.
void Sentinels::demote(SimulatedRedis &redis) {
    if (&redis == master_) {
        return; // it is again
    }
    simulation_.write(redis.address() + " is a replica");
    redis.set_master(master_->address());
    if (simulation_.chance.one_in(2)) {
        simulation_.network.cut(redis);
    }
}

void Sentinels::fail_sentinel() {
    SimulatedSentinel &sentinel = *sentinels_[simulation_.chance.below(sentinels_.size())];
    const auto write = [&](const char *what) {
        simulation_.write(sentinel.address() + " " + what);
    };
    switch (simulation_.chance.below(5)) {
    case 0:
        write("stands still");
        sentinel.stall_until(simulation_.timeline.now() +
                             Time{simulation_.chance.between(1'000, 2'000'000)});
        break;
    case 1:
        write("is down");
        sentinel.is_down = true;
        simulation_.network.cut(sentinel);
        later(2'000'000, [this, &sentinel] {
            sentinel.is_down = false;
            tell(sentinel);
        });
        break;
    case 2:
        write("knows no master");
        sentinel.set_forgetful(true);
        later(2'000'000, [&sentinel] { sentinel.set_forgetful(false); });
        break;
    case 3:
        write("answers with errors");
        sentinel.set_unable(true);
        later(2'000'000, [&sentinel] { sentinel.set_unable(false); });
        break;
    default: {
        // A replica, the master, or an address where nobody is.
        const std::string wrong =
            simulation_.chance.one_in(3) ? "10.0.0.9:6379" : draw_redis().address();
        simulation_.write(sentinel.address() + " takes " + wrong + " for the master");
        simulation_.hit(&Happened::wrong_sentinels);
        simulation_.network.publish(sentinel, sentinel.hear(wrong));
        later(2'000'000, [this, &sentinel] { tell(sentinel); });
    }
    }
}

const SimulatedRedis &Sentinels::redis_of(uint16_t /*hash_slot*/) const {
    return *master_;
}

} // namespace simulation
