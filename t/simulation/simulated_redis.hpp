// A Redis of a simulation: it speaks RESP, runs the scripts that it is sent, and has a clock of its
// own.
#pragma once

#include "replay/redis/embedded_redis.hpp"
#include "simulation/timeline.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace simulation {

class SimulatedRedis {
  public:
    /// What it does with each command, until it is told otherwise.
    enum class Mood {
        well,
        loading,   // answers LOADING
        read_only, // answers READONLY, as a replica does
    };

    /// One client's connection, as the server sees it.
    struct Client {
        std::string unread; // bytes of a command that is not there as a whole
    };

    /// `ahead` is what its clock is ahead of the timeline.
    SimulatedRedis(const Timeline &timeline, Time ahead) : timeline_(timeline), ahead_(ahead) {}

    /// Takes what a client has sent, and returns the replies to the commands that are there now.
    std::string take(Client &client, std::string_view bytes);

    void set_mood(Mood mood) { mood_ = mood; }
    void forget_scripts() { engine_->forget_scripts(); }
    /// It is started again without its data.
    void lose_data();
    Time now() const { return timeline_.now() + ahead_; }
    Time ahead() const { return ahead_; }
    /// How many keys there are, after those that have expired have gone.
    size_t keys();
    uint64_t commands() const { return commands_; }

  private:
    std::string reply(std::string_view command);

    const Timeline &timeline_;
    Time ahead_;
    Mood mood_ = Mood::well;
    uint64_t commands_ = 0;
    std::unique_ptr<replay::EmbeddedRedis> engine_ = std::make_unique<replay::EmbeddedRedis>();
};

} // namespace simulation
