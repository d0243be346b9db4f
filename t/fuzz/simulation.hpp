// Sessions, those who ask them, and what is between them and their Redis instances: the network and
// the clock. A fuzz target says what happens; here is what always holds. Each check is answered
// once, in time and by its own verdict, and in the end nothing is left over anywhere.
#pragma once

#include "honest_redis.hpp"

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fuzz {

/// The part of the settings that every target has.
redis_client::SessionSettings take_settings(Input &input,
                                            redis_client::SessionSettings settings = {});

class Simulation;

struct Check final : redis_client::CheckCallbacks {
    Check(Simulation &its_simulation, size_t its_number)
        : simulation(its_simulation), number(its_number) {}
    void on_answer(std::optional<redis_client::Failure> failure) override;

    Simulation &simulation;
    size_t number;
    redis_client::Time deadline{0};
    redis_client::Command *command = nullptr; // while somebody waits
    bool has_verdict = false;
    std::vector<redis_client::Charge> charges;
    std::vector<std::string> keys;
};

/// A session, and the Redis at the other end of its connection.
struct Node {
    Node(redis_client::SessionGroup &group, redis_client::Redirects *redirects)
        : session(group, 1, redirects) {}

    redis_client::Session session;
    HonestRedis redis;
    std::string wire; // what Redis has not read, for it is no whole command
    bool is_connected = false;
    bool is_trusted = false; // nobody but Redis has said anything on this connection
};

class Simulation {
  public:
    /// All that could be seen from outside.
    std::string run();

    void answered(Check &check, std::optional<redis_client::Failure> failure);

  protected:
    using Lost = redis_client::Session::Lost;

    /// What Redis says comes in Pieces of these sizes. Without `redirects` it is no cluster.
    Simulation(const redis_client::SessionSettings &settings, Input input,
               std::string_view piece_sizes, size_t instances,
               redis_client::Redirects *redirects = nullptr);
    ~Simulation() = default;

    /// One of the following, or of the target's own.
    virtual void step() = 0;

    void connect() { connect(take_node()); }
    void send() { send_bytes(take_node(), SIZE_MAX); }
    void send_some();
    void garbage() { garbage(take_node()); }
    void abandon();
    void refund();
    void release();
    void wait();
    void lose();

    /// Keys of that number, which tell so many units.
    void ask(redis_client::Session &session, const Question &question, uint64_t number,
             uint16_t hash_slot = 0);
    void connect(Node &node);
    void garbage(Node &node);
    void tell_the_rest(Node &node);
    /// So many bytes at most, as a socket takes them.
    void send_bytes(Node &node, size_t most);
    void receive(Node &node, std::string_view bytes, bool is_honest);

    Node &take_node() { return nodes_[input_.number(0, instances_ - 1)]; }
    Check *take_check();

    Input input_;
    redis_client::SessionGroup group_;
    std::deque<Node> nodes_; // with their Redis instances first; others are never connected
    redis_client::Time now_{1000};
    std::deque<Check> checks_;

  private:
    void note(std::string_view what, uint64_t number);
    void disconnect(Node &node, Lost lost);
    void release_permits(Check &check);
    void check_waiting() const;
    void end();

    const std::string_view piece_sizes_;
    const size_t instances_;
    const Node *receiving_ = nullptr;
    std::string history_;
};

} // namespace fuzz
