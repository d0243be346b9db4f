// The sessions of a cluster's nodes, while keys move between them: Redis instances answer well,
// redirect, or say anything. Each check is answered once, in time and by its own verdict, and
// charged once at most, wherever it is led; in the end nothing is left over anywhere.

#include "honest_redis.hpp"
#include "pieces.hpp"
#include "targets.hpp"

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>

namespace fuzz {
namespace {

using namespace std::chrono_literals;
using redis_client::Call;
using redis_client::Charge;
using redis_client::Command;
using redis_client::Failure;
using redis_client::Redirect;
using redis_client::Session;
using redis_client::Time;
using Lost = Session::Lost;
using Progress = Session::Progress;

constexpr size_t nodes = 3;
constexpr uint64_t hash_slots = 4; // few, so that checks share runs

redis_client::SessionSettings take_settings(Input &input) {
    redis_client::SessionSettings settings;
    settings.shapes = {input.one_of(questions()).shape};
    settings.timeout = std::chrono::milliseconds(input.number(1, 2000));
    settings.max_pending = input.number(1, 16);
    settings.breaker.failures = input.number(0, 3);
    return settings;
}

class Cluster;

struct Check final : redis_client::CheckListener {
    Check(Cluster &its_cluster, size_t its_number) : cluster(its_cluster), number(its_number) {}
    void on_answer(std::optional<Failure> failure) override;

    Cluster &cluster;
    size_t number;
    Time deadline{0};
    Call *call = nullptr; // while somebody waits
    bool has_verdict = false;
    int redirects = 0;
    std::vector<Charge> charges;
    std::vector<std::string> keys;
};

struct Node {
    Node(redis_client::SessionGroup &group, redis_client::Redirects &redirects)
        : session(group, 1, &redirects) {}

    Session session;
    HonestRedis redis;
    std::string wire; // what Redis has not read, for it is no whole command
    bool is_connected = false;
    bool is_trusted = false; // nobody but Redis has said anything on this connection
    bool was_asking = false; // the last command that Redis answered
};

/// With its nodes, their network and the clock.
class Cluster final : redis_client::Redirects {
  public:
    /// Bytes come in Pieces of these sizes.
    Cluster(Input input, std::string_view piece_sizes)
        : input_(input), piece_sizes_(piece_sizes), settings_(take_settings(input_)) {
        redis_client::Redirects &self = *this;
        for (size_t i = 0; i < nodes; ++i) {
            nodes_.emplace_back(group_, self);
        }
    }

    /// All that could be seen from outside.
    std::string run() {
        constexpr int most_steps = 300;
        static constexpr void (Cluster::*steps[])() = {
            &Cluster::ask,      &Cluster::ask,    &Cluster::ask,       &Cluster::send,
            &Cluster::send,     &Cluster::answer, &Cluster::answer,    &Cluster::answer,
            &Cluster::connect,  &Cluster::wait,   &Cluster::send_some, &Cluster::garbage,
            &Cluster::abandon,  &Cluster::refund, &Cluster::release,   &Cluster::lose,
            &Cluster::read_map, &Cluster::settle,
        };
        for (int i = 0; i < most_steps && !input_.empty(); ++i) {
            (this->*input_.one_of(steps))();
            check_waiting();
        }
        end();
        return history_;
    }

    void answered(Check &check, std::optional<Failure> failure);

  private:
    void note(std::string_view what, uint64_t number) {
        history_ += std::string(what) + ' ' + std::to_string(number) + '\n';
    }

    void on_redirect(const Session &from, const Redirect &to) override;
    void ask_again(Call &call, const Session &from, const Redirect &to) override;

    void ask();
    void send() { send_bytes(take_node(), SIZE_MAX); }
    void send_some() { send_bytes(take_node(), input_.number(0, 4095)); }
    void connect() { connect(take_node()); }
    void answer();
    void garbage();
    void abandon();
    void refund();
    void release();
    void wait();
    void lose();
    void read_map();
    void settle();
    void end();

    void connect(Node &node);
    void send_bytes(Node &node, size_t most);
    std::string honest_answer(Node &node);
    std::string answer_with(Node &node, std::string_view reply);
    std::string redirect(Node &node);
    void receive(Node &node, std::string_view bytes, bool is_honest);
    void disconnect(Node &node, Lost lost);
    void expire(Session &session, Node *node);
    void release_slots(Check &check);
    void check_waiting();

    Node &take_node() { return nodes_[input_.number(0, nodes - 1)]; }
    Check *take_check() {
        return checks_.empty() ? nullptr : &checks_[input_.number(0, checks_.size() - 1)];
    }
    Session &session_at(uint16_t port) {
        return port <= nodes ? nodes_[port - 1].session : nowhere_;
    }

    Input input_;
    std::string_view piece_sizes_;
    redis_client::SessionSettings settings_;
    redis_client::SessionGroup group_{settings_};
    std::deque<Node> nodes_;     // at their ports, counted from 1
    Session nowhere_{group_, 1}; // of checks for which there is no node; never connected
    const Node *receiving_ = nullptr;
    Time now_{1000};
    std::deque<Check> checks_;
    std::map<std::string, int> charged_;        // keys, how often
    std::set<std::string> is_to_follow_asking_; // keys of checks
    bool was_lied_to_ = false; // by whoever is no Redis: what it says of a check may be of another
    std::string history_;
};

void Check::on_answer(std::optional<Failure> failure) {
    cluster.answered(*this, failure);
}

void Cluster::answered(Check &check, std::optional<Failure> failure) {
    require(check.call != nullptr, "a check is answered once");
    check.call = nullptr;
    check.has_verdict = !failure;
    note("answered", check.number);
    note("failure", failure ? 1 + static_cast<uint64_t>(*failure) : 0);
    bool is_granted = true;
    for (const Charge &charge : check.charges) {
        require(!failure || !charge.is_charged, "without a verdict nothing is charged");
        require(!failure || charge.slot == nullptr, "nor held");
        is_granted =
            is_granted && !failure && charge.verdict.decision == rate_limit::Decision::granted;
    }
    for (const Charge &charge : check.charges) {
        require(!is_granted || !receiving_->is_trusted ||
                    charge.verdict.remaining == number_in(charge.redis_key),
                "a verdict is that of its own key");
    }
}

void Cluster::on_redirect(const Session & /*from*/, const Redirect &to) {
    require(to.hash_slot < redis_client::hash_slots && to.port > 0, "a redirect leads somewhere");
    for (Node &node : nodes_) {
        Session &target = session_at(to.port);
        if (to.kind == Redirect::Kind::moved && &node.session != &target && &target != &nowhere_) {
            target.take_slots(redis_client::HashSlotSet().set(to.hash_slot), node.session);
        }
    }
}

void Cluster::ask_again(Call &call, const Session & /*from*/, const Redirect &to) {
    if (call.listener != nullptr) {
        require(++static_cast<Check *>(call.listener)->redirects <= 5, "no check goes for ever");
    }
    session_at(to.port).take_over(call, to.kind, now_);
}

/// Of some node, or before it is known of which.
void Cluster::ask() {
    constexpr size_t most_checks = 50; // each with keys of its own, of which so many units are left
    if (checks_.size() == most_checks) {
        return;
    }
    const Question &question = input_.one_of(questions());
    Check &check = checks_.emplace_back(*this, checks_.size());
    check.deadline = now_ + settings_.timeout;
    check.keys.reserve(question.rules.size());
    const auto hash_slot = static_cast<uint16_t>(input_.number(0, hash_slots - 1));
    for (const redis_client::Asked &rule : question.rules) {
        Charge &charge = check.charges.emplace_back();
        charge.quota = rule.quota;
        charge.dry_run = rule.dry_run;
        charge.redis_key = check.keys.emplace_back(key_of(rule.quota, checks_.size()));
        charge.hash_slot = hash_slot;
        charge.arguments = rule.arguments;
    }
    Session &session = session_at(static_cast<uint16_t>(input_.number(1, nodes + 1)));
    const auto asked = session.ask(check.charges, check, now_);
    if (const auto *failure = std::get_if<Failure>(&asked)) {
        note("refused", static_cast<uint64_t>(*failure));
    } else {
        check.call = std::get<Call *>(asked);
    }
}

/// What waited for it goes to its nodes.
void Cluster::read_map() {
    std::deque<Call *> waiting;
    while (Call *call = nowhere_.give_away()) {
        waiting.push_back(call);
    }
    if (input_.flag()) {
        nowhere_.disconnected(Lost::unreachable, now_);
    }
    for (Call *call : waiting) {
        session_at(static_cast<uint16_t>(input_.number(1, nodes + 1)))
            .take_over(*call, Redirect::Kind::moved, now_);
    }
    Node &from = take_node();
    Node &to = take_node();
    if (&from != &to) {
        to.session.take_slots(redis_client::HashSlotSet().set(input_.number(0, hash_slots - 1)),
                              from.session);
    }
}

void Cluster::connect(Node &node) {
    if (!node.is_connected) {
        node.is_connected = node.is_trusted = true;
        node.was_asking = false;
        node.redis.connected();
        node.wire.clear();
        node.session.connected();
    }
}

/// So many bytes at most, as a socket takes them.
void Cluster::send_bytes(Node &node, size_t most) {
    if (node.session.is_ready()) {
        node.session.flush(now_);
    }
    redis_client::ByteQueue &output = node.session.output();
    const std::string_view bytes = output.bytes().substr(0, most);
    note("sent", bytes.size());
    node.wire += bytes;
    output.consume(bytes.size());
    if (node.is_connected && output.empty()) {
        node.redis.take(std::exchange(node.wire, {}));
    }
}

bool is_asking(const Command *command) {
    return command != nullptr && command->front() == "ASKING";
}

/// Those of a check; a release has fewer words.
std::vector<std::string> keys_of_checks(const Command *command) {
    if (command == nullptr || !command->front().starts_with("EVAL") || command->size() == 5) {
        return {};
    }
    const auto first = command->begin() + 3;
    return {first, first + std::stol((*command)[2])};
}

std::string Cluster::honest_answer(Node &node) {
    const Command *command = node.redis.next();
    const auto keys = keys_of_checks(command);
    const bool asks = is_asking(command);
    const std::string answer = node.redis.answer(input_);
    const bool is_verdict = answer.starts_with('$') && !answer.starts_with("$-1");
    for (const std::string &key : is_verdict ? keys : decltype(keys)()) {
        require(++charged_[key] == 1 || was_lied_to_, "a check is charged once");
        require(!is_to_follow_asking_.contains(key) || node.was_asking || was_lied_to_,
                "where a hash slot moves to, ASKING comes first");
        is_to_follow_asking_.erase(key);
    }
    node.was_asking = asks;
    return answer;
}

std::string Cluster::answer_with(Node &node, std::string_view reply) {
    node.was_asking = is_asking(node.redis.next());
    return node.redis.answer_with(reply);
}

/// Of the next command to any node, or to nobody. Redis never says that of ASKING, or of a login.
std::string Cluster::redirect(Node &node) {
    const Command *command = node.redis.next();
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
    return answer_with(node, std::string(is_ask ? "-ASK " : "-MOVED ") +
                                 std::to_string(input_.number(0, hash_slots - 1)) +
                                 " node:" + std::to_string(input_.number(1, nodes + 1)) + "\r\n");
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
            bytes += answer_with(node, input_.one_of(other_replies));
        } else if (kind == noscript || kind == tryagain) {
            const bool is_check = !keys_of_checks(node.redis.next()).empty();
            bytes += !is_check          ? honest_answer(node)
                     : kind == noscript ? answer_with(node, redis_client::noscript)
                                        : answer_with(node, "-TRYAGAIN Multiple keys\r\n");
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
    node.is_trusted = false;
    was_lied_to_ = was_lied_to_ || node.is_connected;
    receive(node, input_.flag() ? input_.text(255) : input_.one_of(no_replies), false);
}

/// Turns of the event loop with nothing but answers, until there is nothing more to answer.
void Cluster::settle() {
    for (Node &node : nodes_) {
        connect(node);
        send_bytes(node, SIZE_MAX);
    }
    for (Node &node : nodes_) {
        while (node.is_connected && node.redis.has_commands()) {
            receive(node, honest_answer(node), true);
            send_bytes(node, SIZE_MAX);
        }
        require(!node.is_trusted || !node.session.has_waiting(), "all that was asked is answered");
    }
}

void Cluster::receive(Node &node, std::string_view bytes, bool is_honest) {
    if (!node.is_connected) {
        return;
    }
    Progress all = Progress::more;
    const auto is_over = [&] { return all == Progress::broken || all == Progress::refused; };
    receiving_ = &node;
    for (Pieces pieces(bytes, piece_sizes_); !pieces.empty() && !is_over();) {
        const Progress progress = node.session.received(pieces.take(), now_);
        all = progress == Progress::more ? all : progress;
    }
    receiving_ = nullptr;
    note("progress", static_cast<uint64_t>(all));
    if (is_over()) {
        require(!is_honest || !node.is_trusted, "no answer breaks the connection");
        disconnect(node, Lost::unreachable);
    }
}

void Cluster::disconnect(Node &node, Lost lost) {
    node.is_connected = node.is_trusted = false;
    node.session.disconnected(lost, now_);
}

void Cluster::lose() {
    Node &node = take_node();
    disconnect(node, node.session.is_ready() && input_.flag() ? Lost::in_use : Lost::unreachable);
}

void Cluster::abandon() {
    Check *check = take_check();
    if (check != nullptr && check->call != nullptr) {
        Call &call = *std::exchange(check->call, nullptr);
        call.session->abandon(call, now_);
        check->charges.clear();
    }
}

void Cluster::refund() {
    Check *check = take_check();
    Session &session = take_node().session;
    if (check != nullptr && check->has_verdict) {
        session.refund(check->charges, now_);
    }
}

void Cluster::release() {
    Check *check = take_check();
    if (check != nullptr && check->has_verdict) {
        release_slots(*check);
    }
}

void Cluster::release_slots(Check &check) {
    for (Charge &charge : check.charges) {
        if (charge.slot != nullptr) {
            const auto holder = std::ranges::find_if(
                nodes_, [&](const Node &node) { return node.session.has(*charge.slot); });
            require(holder != nodes_.end(), "a slot that is held is some node's");
            holder->session.release(*std::exchange(charge.slot, nullptr), now_);
        }
    }
}

/// As timers do that are set to when the sessions say.
void Cluster::wait() {
    now_ += std::chrono::milliseconds(input_.number(0, input_.flag() ? 255 : 65'535));
    for (Node &node : nodes_) {
        expire(node.session, &node);
    }
    expire(nowhere_, nullptr);
}

void Cluster::expire(Session &session, Node *node) {
    const auto next = session.next_expiry();
    if (next && *next <= now_ && session.expire(now_)) {
        require(node != nullptr && node->is_connected, "what is given up was there");
        disconnect(*node, Lost::unreachable);
    }
}

void Cluster::check_waiting() {
    size_t waiting = 0;
    for (const Check &check : checks_) {
        if (check.call != nullptr) {
            ++waiting;
            const auto next = check.call->session->next_expiry();
            require(next && *next <= check.deadline, "whoever waits is told by the deadline");
        }
    }
    require(waiting <= settings_.max_pending, "no more wait than may");
    size_t pending = nowhere_.pending();
    for (const Node &node : nodes_) {
        pending += node.session.pending();
    }
    require(pending == group_.calls.in_use(), "each call is some session's");
    note("pending", pending);
}

/// Everything comes to an end.
void Cluster::end() {
    for (Node &node : nodes_) {
        disconnect(node, Lost::unreachable);
    }
    nowhere_.disconnected(Lost::unreachable, now_);
    for (Check &check : checks_) {
        require(check.call == nullptr, "all that were asked are answered");
        release_slots(check);
    }
    now_ += 24h;
    redis_client::Counters all;
    for (Node &node : nodes_) {
        while (const auto next = node.session.next_expiry()) {
            require(*next <= now_, "nothing is left to wait for");
            require(!node.session.expire(now_), "nothing is unanswered");
        }
        const redis_client::Counters &counters = node.session.counters();
        all.verdicts += counters.verdicts + counters.failures + counters.not_asked;
    }
    all.verdicts += nowhere_.counters().failures + nowhere_.counters().not_asked;
    require(all.verdicts <= checks_.size(), "a check is counted once");
    require(group_.calls.in_use() == 0 && group_.errands == 0 && group_.slots.in_use() == 0,
            "nothing is left over");
}

} // namespace

void clusters(Input input) {
    const std::string_view piece_sizes = input.text(8);
    require_same_in_pieces({piece_sizes},
                           [&](std::string_view sizes) { return Cluster(input, sizes).run(); });
}

} // namespace fuzz
