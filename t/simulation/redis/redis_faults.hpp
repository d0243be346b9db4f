// What goes wrong with a single Redis, and what of it the auditor excuses.
#pragma once

#include "simulation/redis/topology.hpp"

#include <functional>
#include <set>
#include <string>

namespace simulation {

class RedisFaults {
  public:
    RedisFaults(Simulation &simulation, Topology &topology);

    /// Lets one of them happen, by chance.
    void happen(SimulatedRedis &redis);
    /// The Redis is down for a while, and may have lost its data when it is there again.
    void end(SimulatedRedis &redis);
    /// One that remembers writes is down for a while, and comes back from a snapshot.
    void restart_older(SimulatedRedis &redis);

  private:
    /// Then it is there again, and that is done.
    void be_down_for_a_while(SimulatedRedis &redis, std::function<void()> what);
    void lose_data(SimulatedRedis &redis);
    void change_mood(SimulatedRedis &redis);
    void change_password(SimulatedRedis &redis);
    void step_clock(SimulatedRedis &redis);
    void spoil_key(SimulatedRedis &redis);
    Time soon(int64_t at_most_us);
    void write(const SimulatedRedis &redis, const char *what);

    Simulation &simulation_;
    Topology &topology_;
    // Faults that some checks meet and others do not last longer than an outage takes to end.
    const bool lasting_;
    std::set<std::string> spoilt_; // keys that have a value of another type
};

} // namespace simulation
