#include "simulation/redis/topology.hpp"

#include "simulation/lives.hpp"
#include "simulation/redis/cluster.hpp"
#include "simulation/redis/sentinels.hpp"
#include "simulation/redis/slot_of_key.hpp"
#include "simulation/redis/standalone.hpp"
#include "simulation/simulation.hpp"

#include <algorithm>
#include <utility>

namespace simulation {

namespace {

constexpr Time takes_writes_for{3'000'000}; // a Redis whose data was copied

} // namespace

Topology::Topology(Simulation &simulation) : simulation_(simulation) {
    Chance &chance = simulation.chance;
    if (chance.one_in(2)) {
        access_.password = "secret";
        access_.username = chance.one_in(2) ? "limiter" : "";
    }
    access_.database = chance.one_in(3) ? 1 + chance.below(15) : 0;
}

SimulatedRedis &Topology::add_redis(const std::string &address, Time ahead) {
    auto &redis = *redis_.emplace_back(std::make_unique<SimulatedRedis>(
        simulation_.timeline, simulation_.network.counts, address, ahead));
    redis.set_access(access_);
    redis.on_deleted = [this, &redis](std::string_view key) {
        const Time now = simulation_.timeline.now();
        const uint16_t slot = slot_of_key(key);
        redis.histories().set(slot, now, simulation_.auditor.begin_history_by_reset(now.count()));
        on_data_changed(redis, slot);
    };
    redis.on_misbehaviour = [this](std::string_view what) {
        simulation_.network.complaints.push_back("a worker " + std::string(what));
    };
    redis.on_run = [this](ScriptRun what, std::string_view key) {
        if (!is_of_live_limits(key)) {
            simulation_.auditor.run_script(what, key);
        }
    };
    simulation_.network.servers[address] = &redis;
    return redis;
}

SimulatedRedis &Topology::draw_redis() {
    return *redis_[simulation_.chance.below(redis_.size())];
}

/// Where calendars say the windows, one of them ends at most five seconds after the timeline
/// begins.
Time Topology::draw_ahead() const {
    constexpr Time longest{3'000'000'000};
    const Time ahead{simulation_.chance.between(-longest.count(), longest.count())};
    return simulation_.has_calendars() ? -std::chrono::abs(ahead) / 600 : ahead;
}

/// The one that was copied may still be asked, and leases go on that it grants.
size_t Topology::begin_history() {
    const Time now = simulation_.timeline.now();
    return last_copied_ && now < *last_copied_ + takes_writes_for
               ? simulation_.auditor.begin_history_elsewhere(now.count())
               : simulation_.auditor.begin_history(now.count());
}

Time Topology::draw_known_up_to() {
    Chance &chance = simulation_.chance;
    const bool is_long = simulation_.loses_newest || chance.one_in(3);
    const int64_t longest_us = is_long ? 8'000'000 : 200'000;
    return simulation_.timeline.now() - Time{chance.between(0, longest_us)};
}

/// If the copy is older than all that operators have set, nothing tells that it is the same store.
void Topology::note_lost_newest(const SimulatedRedis::Copy &copy, Time when, bool clock_steps) {
    AuditedOverrides &overrides = simulation_.auditor.overrides;
    const auto is_head = [](std::string_view name) {
        return is_of_live_limits(name) && name.ends_with(":head");
    };
    if (std::ranges::any_of(copy.engine->keys().names(), is_head)) {
        overrides.lose_newest(when.count(), clock_steps);
    } else {
        overrides.doubt_all(when.count());
    }
}

/// A clock that is ahead of that of the other one has the effect of a step forward.
void Topology::copy_data(const SimulatedRedis &from, Time known_up_to, SimulatedRedis &to) {
    last_copied_ = simulation_.timeline.now();
    SimulatedRedis::Copy copy = from.copy_at(known_up_to);
    Auditor &auditor = simulation_.auditor;
    const Time now = simulation_.timeline.now();
    if (may_have_overrides(from)) {
        note_lost_newest(copy, now, from.ahead() != to.ahead());
        note_lost_newest(copy, now + takes_writes_for, from.ahead() != to.ahead());
    }
    note_step_back(from.ahead() - to.ahead());
    const bool is_step_forward = to.ahead() > from.ahead();
    const auto next = [&](size_t history) {
        return is_step_forward ? auditor.begin_history_elsewhere(now.count())
                               : auditor.copy_history(history, copy.copied.count(), now.count());
    };
    to.histories().set_all(now, next(from.histories().common_at(copy.copied)));
    for (const uint16_t hash_slot : from.histories().special_at(copy.copied)) {
        to.histories().set(hash_slot, now, next(from.histories().at(hash_slot, copy.copied)));
    }
    to.become(std::move(copy));
}

void Topology::recover() {
    for (const auto &redis : redis_) {
        redis->stop_lying();
    }
}

void Topology::configure_access(redis_client::BackendSettings &settings) const {
    settings.session.username = access_.username;
    settings.session.password = access_.password;
    settings.session.database = access_.database;
}

redis_client::ServerAddress Topology::server_at(const std::string &address) {
    const size_t colon = address.rfind(':');
    redis_client::ServerAddress server{
        .host = address.substr(0, colon),
        .port = static_cast<in_port_t>(std::stoul(address.substr(colon + 1)))};
    server.addresses = redis_client::literal_address(server.host, server.port);
    return server;
}

std::optional<Decision> Topology::decision(std::string_view key, Time clock, Time since) const {
    for (const auto &redis : redis_) {
        if (const auto when = redis->ran_at(key, clock, since)) {
            return Decision{*when, clock, redis->histories().at(slot_of_key(key), *when)};
        }
    }
    return std::nullopt;
}

void Topology::note_step_back(Time by) {
    way_back_ += std::max(by, Time{0});
}

/// Overrides expire by the clock of the Redis that has them.
void Topology::doubt_overrides_of(const Server &server) {
    if (may_have_overrides(server)) {
        simulation_.auditor.overrides.doubt_all(simulation_.timeline.now().count());
    }
}

void Topology::flush_all() {
    const Time now = simulation_.timeline.now();
    simulation_.hit(&Happened::flushed_by_operators);
    for (const auto &redis : redis_) {
        redis->lose_data();
        redis->histories().set_all(now, begin_history());
        on_data_changed(*redis, std::nullopt);
    }
    simulation_.auditor.overrides.forget_all(now.count());
}

void Topology::judge_lives() {
    for (const auto &redis : redis_) {
        for (const std::string &key : redis->judge_lives(excused_lives_)) {
            simulation_.auditor.misbehave("a key does not outlive what it holds: " + key);
        }
    }
}

void Topology::lose_key(const std::string &name) {
    const Time now = simulation_.timeline.now();
    for (const auto &redis : redis_) {
        if (redis->keys().find(name) != nullptr) {
            redis->keys().remove(name);
            redis->keys_were_changed();
            const uint16_t slot = slot_of_key(name);
            redis->histories().set(slot, now, begin_history());
            if (is_of_live_limits(name)) {
                simulation_.auditor.overrides.doubt_all(now.count());
            }
            on_data_changed(*redis, slot);
        }
    }
}

size_t Topology::keys() {
    size_t keys = 0;
    for (const auto &redis : redis_) {
        const std::vector<std::string> names = redis->keys().names();
        keys += names.size() -
                static_cast<size_t>(std::ranges::count_if(names, &Topology::is_of_live_limits));
    }
    return keys;
}

std::vector<std::string> Topology::keys_of_permits() {
    std::vector<std::string> keys;
    for (const auto &redis : redis_) {
        for (const std::string &name : redis->keys().names()) {
            if (is_of_permits(name) && &redis_of(slot_of_key(name)) == redis.get()) {
                keys.push_back(name);
            }
        }
    }
    return keys;
}

std::unique_ptr<Topology> make_topology(Simulation &simulation) {
    switch (simulation.chance.below(3)) {
    case 0:
        return std::make_unique<Sentinels>(simulation);
    case 1:
        return std::make_unique<SimulatedCluster>(simulation);
    default:
        return std::make_unique<Standalone>(simulation);
    }
}

} // namespace simulation
