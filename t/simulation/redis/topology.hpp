// The servers of a simulation: one Redis, a master with replicas and Sentinels, or a cluster.
#pragma once

#include "redis_client/link/backend_settings.hpp"
#include "simulation/redis/simulated_redis.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace simulation {

struct Simulation;

/// When Redis has decided, what its clock showed, and of which data it did: see histories.hpp.
struct Decision {
    Time when{0};
    Time clock{0};
    size_t history = 0;
};

class Topology {
  public:
    virtual ~Topology() = default;
    Topology(const Topology &) = delete;
    Topology &operator=(const Topology &) = delete;

    /// Sets what hosts are configured with.
    virtual void configure(redis_client::BackendSettings &settings) const = 0;
    /// Lets something go wrong, by chance.
    virtual void go_wrong() = 0;
    /// Lets Redis come back without what was written last.
    virtual void lose_newest() = 0;
    /// Nothing goes wrong any more.
    virtual void recover();
    /// For so long hosts may not hear of changes after something that goes wrong.
    virtual Time trouble() const { return Time{12'000'000}; }
    /// Whether all hosts hear of another master before they ask it.
    virtual bool tells_of_masters() const { return true; }
    /// Returns the Redis whose data counts for a hash slot now.
    virtual const SimulatedRedis &redis_of(uint16_t hash_slot) const = 0;

    /// Returns the Redis that has all data from begin to end if nothing goes wrong; null if there
    /// is no such one.
    virtual SimulatedRedis *only_redis() { return nullptr; }

    /// Whether hosts follow what operators set at that server, or may before long.
    virtual bool may_have_overrides(const Server & /*server*/) const { return true; }
    /// Nobody knows what of it that Redis still has, if it had it, or for how long it holds.
    void doubt_overrides_of(const Server &server);
    /// A Redis has lost its data.
    virtual void note_lost_overrides(const SimulatedRedis &redis) { doubt_overrides_of(redis); }

    /// Removes a key from wherever it has moved to. What it has held is lost.
    void lose_key(const std::string &name);
    /// A Redis has lost data, all or that of one hash slot, or its clock has stepped.
    virtual void on_data_changed(SimulatedRedis & /*redis*/,
                                 std::optional<uint16_t> /*hash_slot*/) {}

    /// Returns what was decided about a key at that time of its own clock by a Redis, not earlier
    /// than `since`; nothing if none has decided about it then.
    std::optional<Decision> decision(std::string_view key, Time clock, Time since) const;
    /// Looks whether the keys that were written since the last call outlive what they hold.
    void judge_lives();
    /// Nobody can tell how long the key has to live: it is of somebody else, or has the times of a
    /// clock that is ahead.
    void excuse_life(const std::string &name) { excused_lives_.insert(name); }
    /// Somebody deletes all keys.
    void flush_all();
    /// How many keys all Redis have, but for those of live limits.
    size_t keys();
    /// Whether a Redis has got what another one had a while before.
    bool has_copied_data() const { return last_copied_.has_value(); }
    /// Data begins now, of which no quota has been granted. Returns its number for the auditor.
    size_t begin_history();
    /// Returns the keys that hold permits.
    std::vector<std::string> keys_of_permits();
    /// How far a clock has stepped back. Keys live longer by as much.
    Time longest_way_back() const { return way_back_; }
    /// A clock has stepped back, or data has gone from a Redis to one whose clock is behind by as
    /// much.
    void note_step_back(Time by);

    /// Draws up to when a copy of a Redis knows what was written: mostly it lags a little, and now
    /// and then it has not heard of it for seconds.
    Time draw_known_up_to();
    /// A Redis that remembers writes is started again with what it had then.
    void bring_back(SimulatedRedis &redis, Time known_up_to) {
        copy_data(redis, known_up_to, redis);
    }

  protected:
    static bool is_of_live_limits(std::string_view key) {
        return key.find("{live}") != std::string_view::npos;
    }
    explicit Topology(Simulation &simulation);

    /// Makes a Redis and lets it listen. All have the same access.
    SimulatedRedis &add_redis(const std::string &address, Time ahead);
    SimulatedRedis &draw_redis();
    /// Draws how far the clocks of all Redis are ahead of the timeline.
    Time draw_ahead() const;
    /// Gives a Redis what another one had then, as far as that is remembered.
    void copy_data(const SimulatedRedis &from, Time known_up_to, SimulatedRedis &to);
    void configure_access(redis_client::BackendSettings &settings) const;
    /// Returns a server that has a fixed address.
    static redis_client::ServerAddress server_at(const std::string &address);

    Simulation &simulation_;
    SimulatedRedis::Access access_;
    std::vector<std::unique_ptr<SimulatedRedis>> redis_;

  private:
    void note_lost_newest(const SimulatedRedis::Copy &copy, Time when, bool clock_steps);

    std::optional<Time> last_copied_; // none: no data was
    Time way_back_{0};
    CheckedKeys::Names excused_lives_;
};

std::unique_ptr<Topology> make_topology(Simulation &simulation);

} // namespace simulation
