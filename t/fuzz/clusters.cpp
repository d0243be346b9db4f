// The sessions of a cluster's nodes, while keys move between them: Redis instances answer well,
// redirect, or say anything. Each check is answered once, in time and by its own verdict, and
// charged once at most, wherever it is led; in the end nothing is left over anywhere.

#include "pieces.hpp"
#include "simulation.hpp"
#include "targets.hpp"

#include <deque>
#include <map>
#include <set>
#include <string>

namespace fuzz {
namespace {

using redis_client::Command;
using redis_client::Redirect;
using redis_client::Session;
using redis_client::WireCommand;

constexpr size_t masters = 3;
constexpr uint64_t hash_slots = 4; // few, so that checks share runs

class Cluster final : public Simulation, redis_client::Redirects {
  public:
    Cluster(const redis_client::SessionSettings &settings, Input input,
            std::string_view piece_sizes)
        : Simulation(settings, input, piece_sizes, masters, this),
          nowhere_(nodes_.emplace_back(group_, nullptr).session) {}

  private:
    void step() override {
        static constexpr void (Cluster::*steps[])() = {
            &Cluster::ask,      &Cluster::ask,    &Cluster::ask,       &Cluster::send,
            &Cluster::send,     &Cluster::answer, &Cluster::answer,    &Cluster::answer,
            &Cluster::connect,  &Cluster::wait,   &Cluster::send_some, &Cluster::garbage,
            &Cluster::abandon,  &Cluster::refund, &Cluster::release,   &Cluster::lose,
            &Cluster::read_map, &Cluster::settle,
        };
        (this->*input_.one_of(steps))();
    }

    void on_redirect(const Session &from, const Redirect &to) override;
    void ask_again(Command &command, const Session &from, const Redirect &to) override;

    void ask();
    void answer();
    void garbage();
    void read_map();
    void settle();

    std::string honest_answer(Node &node);
    std::string redirect(Node &node);

    /// Counted from 1.
    Session &session_at(uint16_t port) {
        return port <= masters ? nodes_[port - 1].session : nowhere_;
    }

    Session &nowhere_; // of checks for which there is no node
    std::map<const redis_client::CheckCallbacks *, int> redirects_;
    std::map<std::string, int> charged_;        // keys, how often
    std::set<std::string> is_to_follow_asking_; // keys of checks
    bool was_lied_to_ = false; // by whoever is no Redis: what it says of a check may be of another
};

void Cluster::on_redirect(const Session & /*from*/, const Redirect &to) {
    require(to.hash_slot < redis_client::hash_slots && to.port > 0, "a redirect leads somewhere");
    Session &target = session_at(to.port);
    for (Node &node : nodes_) {
        if (to.kind == Redirect::Kind::moved && &node.session != &target && &target != &nowhere_) {
            target.take_permits(redis_client::HashSlotSet().set(to.hash_slot), node.session);
        }
    }
}

void Cluster::ask_again(Command &command, const Session & /*from*/, const Redirect &to) {
    require(command.callbacks == nullptr || ++redirects_[command.callbacks] <= 5,
            "no check goes for ever");
    session_at(to.port).take_over(command, to.kind, now_);
}

/// Of some node, or before it is known of which.
void Cluster::ask() {
    constexpr size_t most_checks = 50; // each with keys of its own, of which so many units are left
    if (checks_.size() == most_checks) {
        return;
    }
    const Question &question = input_.one_of(questions());
    const auto hash_slot = static_cast<uint16_t>(input_.number(0, hash_slots - 1));
    Session &session = session_at(static_cast<uint16_t>(input_.number(1, masters + 1)));
    Simulation::ask(session, question, checks_.size() + 1, hash_slot);
}

/// What waited for it goes to its nodes.
void Cluster::read_map() {
    std::deque<Command *> waiting;
    while (Command *command = nowhere_.give_away()) {
        waiting.push_back(command);
    }
    if (input_.flag()) {
        nowhere_.disconnected(Lost::unreachable, now_);
    }
    for (Command *command : waiting) {
        for (const redis_client::Charge &charge : command->charges) {
            is_to_follow_asking_.erase(std::string(charge.redis_key));
        }
        session_at(static_cast<uint16_t>(input_.number(1, masters + 1)))
            .take_over(*command, Redirect::Kind::moved, now_);
    }
    Node &from = take_node();
    Node &to = take_node();
    if (&from != &to) {
        to.session.take_permits(redis_client::HashSlotSet().set(input_.number(0, hash_slots - 1)),
                                from.session);
    }
}

std::vector<std::string> keys_of_checks(const WireCommand *command) {
    if (command == nullptr || !is_check(*command)) {
        return {};
    }
    const auto first = command->begin() + 3;
    return {first, first + std::stol((*command)[2])};
}

std::string Cluster::honest_answer(Node &node) {
    const auto keys = keys_of_checks(node.redis.next());
    const bool was_asking = node.redis.answered() == "ASKING";
    const std::string answer = node.redis.answer(input_);
    const bool is_verdict = answer.starts_with('$') && !answer.starts_with("$-1");
    for (const std::string &key : is_verdict ? keys : decltype(keys)()) {
        require(++charged_[key] == 1 || was_lied_to_, "a check is charged once");
        require(!is_to_follow_asking_.contains(key) || was_asking || was_lied_to_,
                "where a hash slot moves to, ASKING comes first");
        is_to_follow_asking_.erase(key);
    }
    return answer;
}

/// Of the next command to any node, or to nobody. Redis never says that of ASKING, or of a login.
std::string Cluster::redirect(Node &node) {
    const WireCommand *command = node.redis.next();
    if (command == nullptr || !command->front().starts_with("EVAL")) {
        return honest_answer(node);
    }
    const bool is_ask = input_.flag();
    for (const std::string &key : keys_of_checks(command)) {
        if (is_ask) {
            is_to_follow_asking_.insert(key);
        } else {
            is_to_follow_asking_.erase(key);
        }
    }
    const std::string hash_slot = std::to_string(input_.number(0, hash_slots - 1));
    const std::string port = std::to_string(input_.number(1, masters + 1));
    return node.redis.answer_with((is_ask ? "-ASK " : "-MOVED ") + hash_slot + " node:" + port +
                                  "\r\n");
}

void Cluster::answer() {
    enum : uint64_t { other, noscript, tryagain, redirects, redirects_too, honest = 9 };
    Node &node = take_node();
    std::string bytes;
    bool is_honest = true;
    for (uint64_t replies = input_.number(1, 8); replies > 0; --replies) {
        const uint64_t kind = input_.number(0, honest);
        if (kind == other) {
            is_honest = false;
            bytes += node.redis.answer_with(input_.one_of(other_replies));
        } else if (kind == noscript || kind == tryagain) {
            const bool is_check = !keys_of_checks(node.redis.next()).empty();
            bytes += !is_check          ? honest_answer(node)
                     : kind == noscript ? node.redis.answer_with(redis_client::noscript)
                                        : node.redis.answer_with("-TRYAGAIN Multiple keys\r\n");
        } else if (kind == redirects || kind == redirects_too) {
            bytes += redirect(node);
        } else {
            bytes += honest_answer(node);
        }
    }
    receive(node, bytes, is_honest);
}

void Cluster::garbage() {
    Node &node = take_node();
    was_lied_to_ = was_lied_to_ || node.is_connected;
    Simulation::garbage(node);
}

/// Turns of the event loop with nothing but answers, until there is nothing more to answer.
void Cluster::settle() {
    for (size_t i = 0; i < masters; ++i) {
        connect(nodes_[i]);
        send_bytes(nodes_[i], SIZE_MAX);
    }
    for (Node &node : nodes_) {
        while (node.is_connected && node.redis.has_commands()) {
            receive(node, honest_answer(node), true);
            send_bytes(node, SIZE_MAX);
        }
        require(!node.is_trusted || !node.session.has_waiting(), "all that was asked is answered");
    }
}

} // namespace

void clusters(Input input) {
    const std::string_view piece_sizes = input.text(8);
    const auto settings = take_settings(input);
    require_same_in_pieces({piece_sizes}, [&](std::string_view sizes) {
        return Cluster(settings, input, sizes).run();
    });
}

} // namespace fuzz
