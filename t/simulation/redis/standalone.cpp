#include "simulation/redis/standalone.hpp"

#include "simulation/simulation.hpp"

namespace simulation {

namespace {

constexpr const char *name = "redis.example";

} // namespace

Standalone::Standalone(Simulation &simulation)
    : Topology(simulation), faults_(simulation, *this), has_name_(simulation.chance.one_in(3)) {
    simulation.network.hosts[name] = "10.0.0.1";
    add_redis("10.0.0.1:6379", draw_ahead()).remember_writes();
}

void Standalone::configure(redis_client::BackendSettings &settings) const {
    configure_access(settings);
    settings.mode = redis_client::Mode::standalone;
    if (has_name_) {
        settings.has_resolver = true;
        settings.servers.push_back(
            {.host = name,
             .port = 6379,
             .spare = redis_client::literal_address(simulation_.network.hosts[name], 6379)});
    } else {
        settings.servers.push_back(server_at(redis_[0]->address()));
    }
}

void Standalone::go_wrong() {
    if (has_name_ && simulation_.chance.one_in(6)) {
        move();
    } else if (simulation_.chance.one_in(12)) {
        be_replica();
    } else {
        faults_.happen(*redis_[0]);
    }
}

/// The name server hears of it a little later.
void Standalone::move() {
    simulation_.write("Redis moves to another address");
    simulation_.hit(&Happened::moved_addresses);
    Network &network = simulation_.network;
    const std::string host = "10.0.0." + std::to_string(2 + ++moves_);
    network.servers.erase(redis_[0]->address());
    network.cut(*redis_[0]);
    redis_[0]->set_address(host + ":6379");
    network.servers[redis_[0]->address()] = redis_[0].get();
    simulation_.timeline.add(
        simulation_.timeline.now() + Time{simulation_.chance.between(0, 500'000)}, [this] {
            const std::string &address = redis_[0]->address();
            simulation_.network.hosts[name] = address.substr(0, address.rfind(':'));
        });
}

/// Somebody makes it a replica by mistake.
void Standalone::be_replica() {
    simulation_.write("Redis is a replica");
    redis_[0]->set_master("10.0.9.9:6379");
    simulation_.timeline.add(simulation_.timeline.now() +
                                 Time{simulation_.chance.between(1'000, 300'000)},
                             [this] { redis_[0]->set_master(""); });
}

/// No other one has them.
void Standalone::note_lost_overrides(const SimulatedRedis & /*redis*/) {
    simulation_.auditor.overrides.forget_all(simulation_.timeline.now().count());
}

const SimulatedRedis &Standalone::redis_of(uint16_t /*hash_slot*/) const {
    return *redis_[0];
}

} // namespace simulation
