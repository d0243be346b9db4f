// The network between the workers and a Redis: it is slow, takes bytes apart, and breaks.
#pragma once

#include "redis_client/io/connection.hpp"
#include "simulation/chance.hpp"
#include "simulation/simulated_redis.hpp"
#include "simulation/timeline.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace simulation {

/// How often each fault hit something that was on its way.
struct FaultCounts {
    uint64_t broken_while_sending = 0;
    uint64_t broken_while_answering = 0;
    uint64_t refused_connections = 0;
    uint64_t silent_connections = 0;
    uint64_t stalls = 0;
    uint64_t split_commands = 0;
    uint64_t split_replies = 0;
};

class SimulatedConnection;

class Network {
  public:
    Network(Timeline &timeline, SimulatedRedis &redis, Chance chance)
        : timeline(timeline), redis(redis), chance(chance) {}

    Timeline &timeline;
    SimulatedRedis &redis;
    Chance chance;
    FaultCounts counts;
    std::vector<SimulatedConnection *> connections; // of all workers

    /// One message or one attempt in so many meets a fault; 0: none does.
    uint64_t one_fault_in = 0;
    Time stalled_until{0}; // Redis reads nothing before
    bool is_down = false;  // nobody listens

    bool has_fault() { return one_fault_in > 0 && chance.one_in(one_fault_in); }
    /// How long a message takes.
    Time delay() { return Time{chance.between(50, chance.one_in(50) ? 5'000 : 300)}; }
};

/// A worker's end, with what the other end knows of it.
class SimulatedConnection final : public redis_client::Connection {
  public:
    /// The worker may be stopped for a while: it reads nothing before. Its process may be killed:
    /// it does nothing any more.
    class Process {
      public:
        virtual bool is_killed() const = 0;
        virtual Time stopped_until() const = 0;

      protected:
        ~Process() = default;
    };

    SimulatedConnection(Network &network, const Process &process, Callbacks &callbacks)
        : network_(network), process_(process), callbacks_(callbacks) {
        network_.connections.push_back(this);
    }
    ~SimulatedConnection() override {
        close();
        std::erase(network_.connections, this);
    }

    void open(const redis_client::Address &address, std::string_view host) override;
    void close() override;
    bool is_open() const override { return session_ != nullptr; }
    Stage stage() const override {
        return session_->is_accepted ? Stage::connected : Stage::connecting;
    }
    void send_soon() override;
    void send_now() override;
    void read_now() override;
    void set_idle(bool is_idle) override { is_idle_ = is_idle; }
    bool is_of(const Process &process) const { return &process == &process_; }
    /// The worker begins to shut down.
    void dismiss();
    /// Redis or the network ends the connection.
    void cut();

  private:
    /// From opening to closing. Events that are still to come hold it, and see whether it is over.
    struct Session {
        bool is_over = false;     // for the worker
        bool is_accepted = false; // the worker knows it
        bool is_broken = false;   // no byte comes through any more
        Time last_sent{0};        // when the last bytes come to Redis
        Time last_answered{0};    // when the last bytes come to the worker
        SimulatedRedis::Client client;
        std::deque<std::pair<Time, std::string>> answers; // on their way, and when they come
    };
    using SessionPointer = std::shared_ptr<Session>;

    void later(Time when, const SessionPointer &session, std::function<void()> what);
    void lose(std::string_view what);
    void break_at(Time when, const SessionPointer &session);
    static void arrive(Network &network, SimulatedConnection &from, const SessionPointer &session,
                       const std::string &bytes);
    void answer(const SessionPointer &session, std::string_view bytes);
    void deliver();

    Network &network_;
    const Process &process_;
    Callbacks &callbacks_;
    SessionPointer session_;
    bool is_to_send_ = false;
    bool is_idle_ = false;
};

} // namespace simulation
