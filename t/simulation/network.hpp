// The network between the workers and their servers: it is slow, takes bytes apart, and breaks.
#pragma once

#include "redis_client/io/connection.hpp"
#include "simulation/chance.hpp"
#include "simulation/fault_counts.hpp"
#include "simulation/redis/server.hpp"
#include "simulation/timeline.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace simulation {

class SimulatedConnection;

class Network {
  public:
    Network(Timeline &timeline, Chance chance) : timeline(timeline), chance(chance) {}

    Timeline &timeline;
    Chance chance;
    FaultCounts counts;
    std::vector<SimulatedConnection *> connections; // of all workers
    /// What listens, by its address.
    std::map<std::string, Server *, std::less<>> servers;
    /// The addresses of hosts, by their names.
    std::map<std::string, std::string, std::less<>> hosts;
    std::vector<std::string> complaints; // about workers
    uint64_t questions_for_maps = 0;     // that workers have asked nodes of a cluster

    /// One message or one attempt in so many meets a fault; 0: none does.
    uint64_t one_fault_in = 0;

    bool has_fault(const Server &server) { return has_fault_one_in(one_fault_in, &server); }
    /// The same for what happens seldom. The server is null if no one of these is asked.
    bool has_fault_one_in(uint64_t n, const Server *server) {
        const bool has_one = one_fault_in > 0 && chance.one_in(n);
        if (has_one) {
            on_fault(server);
        }
        return has_one;
    }
    /// Looks at the attempts of a process to connect to an address: they must not be too many.
    void judge_attempt(const void *process, const std::string &address);
    std::function<void(const Server *)> on_fault = [](const Server * /*server*/) {};
    /// How long a message takes.
    Time delay() { return Time{chance.between(50, chance.one_in(50) ? 5'000 : 300)}; }

    /// Whether anything is on its way.
    bool is_busy() const;

    /// Ends all connections to a server.
    void cut(const Server &server);
    /// The server sends something unasked to the clients that have subscribed.
    void publish(const Server &server, std::string_view bytes);

  private:
    /// When a process has tried to connect to an address in the last second.
    std::map<std::pair<const void *, std::string>, std::deque<Time>> attempts_;
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
    /// Whether bytes of this connection are on their way, to either side.
    bool is_busy() const {
        const Time now = network_.timeline.now();
        return session_ != nullptr && (session_->last_sent > now || session_->last_answered > now);
    }
    /// The worker begins to shut down.
    void dismiss();
    /// The server or the network ends the connection.
    void cut();
    bool leads_to(const Server &server) const {
        return session_ != nullptr && session_->server == &server;
    }
    /// Gets what the server publishes, if it has subscribed.
    void publish(std::string_view bytes);

  private:
    struct Answer {
        Time when; // it comes to the worker
        std::string bytes;
        bool is_lie; // it ends a reply that is none
    };
    /// From opening to closing. Events that are still to come hold it, and see whether it is over.
    struct Session {
        bool is_over = false;       // for the worker
        bool is_accepted = false;   // the worker knows it
        bool is_broken = false;     // no byte comes through any more
        bool is_cut = false;        // the server knows of it no more
        Time last_sent{0};          // when the last bytes come to the server
        Time last_answered{0};      // when the last bytes come to the worker
        Server *server = nullptr;   // null: nobody answers
        Server::Peer peer;          // what the server knows of it
        std::string unread;         // has come to the server, which stands still
        bool is_read_later = false; // when it goes on
        std::deque<Answer> answers; // on their way
    };
    using SessionPointer = std::shared_ptr<Session>;

    void later(Time when, const SessionPointer &session, std::function<void()> what);
    void lose(std::string_view what);
    void break_at(Time when, const SessionPointer &session);
    void accept();
    static void arrive(Network &network, SimulatedConnection &from, const SessionPointer &session,
                       const std::string &bytes);
    static void read(Network &network, SimulatedConnection &from, const SessionPointer &session);
    void answer(const SessionPointer &session, std::string_view bytes, bool ends_with_lie);
    void deliver();

    Network &network_;
    const Process &process_;
    Callbacks &callbacks_;
    SessionPointer session_;
    bool is_to_send_ = false;
    bool is_idle_ = false;
};

} // namespace simulation
