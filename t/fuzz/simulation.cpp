#include "simulation.hpp"

#include "pieces.hpp"
#include "rules.hpp"
#include "unit/redis_client/different_bytes.hpp"

#include <utility>
#include <variant>

namespace fuzz {

using namespace std::chrono_literals;
using redis_client::Charge;
using redis_client::Failure;
using redis_client::Session;
using Progress = Session::Progress;

redis_client::SessionSettings take_settings(Input &input, redis_client::SessionSettings settings) {
    settings.shapes = {input.one_of(questions()).shape};
    for (const Question &question : questions()) {
        settings.rare_shapes.push_back(question.shape);
    }
    settings.timeout = std::chrono::milliseconds(input.number(1, 2000));
    settings.max_pending = input.number(1, 16);
    settings.breaker.failures = input.number(0, 3);
    return settings;
}

/// Making them takes far longer than all that an input does with them.
static const redis_client::ScriptLibrary &scripts_of_questions() {
    static const redis_client::ScriptLibrary made = [] {
        redis_client::ScriptLibrary scripts;
        for (const Question &question : questions()) {
            scripts.add(question.shape);
        }
        return scripts;
    }();
    return made;
}

void Check::on_answer(std::optional<Failure> failure) {
    simulation.answered(*this, failure);
}

Simulation::Simulation(const redis_client::SessionSettings &settings, Input input,
                       std::string_view piece_sizes, size_t instances,
                       redis_client::Redirects *redirects)
    : input_(input),
      group_(settings, scripts_of_questions(), redis_client::different_bytes,
             [] { return std::chrono::microseconds{0}; }),
      piece_sizes_(piece_sizes),
      instances_(instances) {
    while (nodes_.size() < instances) {
        nodes_.emplace_back(group_, redirects);
    }
}

std::string Simulation::run() {
    constexpr int most_steps = 300;
    for (int i = 0; i < most_steps && !input_.empty(); ++i) {
        step();
        check_waiting();
        note("pending", group_.commands.in_use());
    }
    end();
    return history_;
}

void Simulation::note(std::string_view what, uint64_t number) {
    history_ += std::string(what) + ' ' + std::to_string(number) + '\n';
}

void Simulation::ask(Session &session, const Question &question, uint64_t number,
                     uint16_t hash_slot) {
    Check &check = checks_.emplace_back(*this, checks_.size());
    check.deadline = now_ + group_.settings.timeout;
    check.keys.reserve(question.rules.size());
    for (const redis_client::Asked &rule : question.rules) {
        Charge &charge = check.charges.emplace_back();
        charge.quota = rule.quota;
        charge.dry_run = rule.dry_run;
        charge.block = rule.block;
        charge.redis_key = check.keys.emplace_back(key_of(rule.quota, number));
        charge.hash_slot = hash_slot;
        charge.arguments = rule.arguments;
    }
    const auto asked = session.ask(check.charges, check, now_);
    if (const auto *failure = std::get_if<Failure>(&asked)) {
        note("refused", static_cast<uint64_t>(*failure));
    } else {
        check.command = std::get<redis_client::Command *>(asked);
    }
}

void Simulation::answered(Check &check, std::optional<Failure> failure) {
    require(check.command != nullptr, "a check is answered once");
    check.command = nullptr;
    check.has_verdict = !failure;
    note("answered", check.number);
    note("failure", failure ? 1 + static_cast<uint64_t>(*failure) : 0);
    bool is_granted = !failure;
    for (const Charge &charge : check.charges) {
        require(!failure || !charge.is_charged, "without a verdict nothing is charged");
        require(!failure || charge.permit == nullptr, "nor held");
        if (!failure) {
            require_in_range(charge.quota, charge.verdict);
            is_granted = is_granted && charge.verdict.decision == rate_limit::Decision::granted;
            note("charged", charge.is_charged ? 1 : 0);
            note("remaining", charge.verdict.remaining);
            note("retry", static_cast<uint64_t>(charge.verdict.retry_after.count()));
        }
    }
    for (const Charge &charge : check.charges) {
        require(!is_granted || !receiving_->is_trusted ||
                    charge.verdict.remaining == number_in(charge.redis_key),
                "a verdict is that of its own key");
    }
}

Check *Simulation::take_check() {
    return checks_.empty() ? nullptr : &checks_[input_.number(0, checks_.size() - 1)];
}

void Simulation::connect(Node &node) {
    if (!node.is_connected) {
        node.is_connected = node.is_trusted = true;
        node.redis.connected();
        node.wire.clear();
        node.session.connected();
    }
}

void Simulation::send_some() {
    Node &node = take_node();
    send_bytes(node, input_.number(0, 4095));
}

void Simulation::send_bytes(Node &node, size_t most) {
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

void Simulation::garbage(Node &node) {
    node.is_trusted = false;
    receive(node, input_.flag() ? input_.text(255) : input_.one_of(no_replies), false);
}

void Simulation::receive(Node &node, std::string_view bytes, bool is_honest) {
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
    const redis_client::Problem &problem = node.session.problem();
    note("progress", static_cast<uint64_t>(all));
    history_ += std::string(problem.what) + std::string(problem.redis_said) + '\n';
    require(problem.redis_said.size() <= redis_client::Reply::longest_text,
            "of what Redis says no more is kept than a reply has");
    if (is_over()) {
        require(!is_honest || !node.is_trusted, "no answer breaks the connection");
        disconnect(node, Lost::unreachable);
    }
}

void Simulation::disconnect(Node &node, Lost lost) {
    node.is_connected = node.is_trusted = false;
    node.session.disconnected(lost, now_);
}

void Simulation::lose() {
    Node &node = take_node();
    disconnect(node, node.session.is_ready() && input_.flag() ? Lost::in_use : Lost::unreachable);
}

void Simulation::abandon() {
    Check *check = take_check();
    if (check == nullptr || check->command == nullptr) {
        return;
    }
    Session &session = *check->command->session;
    if (check->number % 2 == 1) { // somebody still wants to know
        session.abandon(*check->command, now_);
    } else {
        session.forget(*std::exchange(check->command, nullptr), now_);
        check->charges.clear(); // nobody is to be told any more
    }
}

void Simulation::refund() {
    Check *check = take_check();
    Session &session = take_node().session;
    if (check != nullptr && check->has_verdict) {
        session.refund(check->charges, now_);
    }
}

void Simulation::release() {
    Check *check = take_check();
    if (check != nullptr && check->has_verdict) {
        release_permits(*check);
    }
}

void Simulation::release_permits(Check &check) {
    for (Charge &charge : check.charges) {
        if (charge.permit != nullptr) {
            const auto holder = std::ranges::find_if(
                nodes_, [&](const Node &node) { return node.session.has(*charge.permit); });
            require(holder != nodes_.end(), "a permit that is held is some session's");
            holder->session.release(*std::exchange(charge.permit, nullptr), now_);
        }
    }
}

/// As timers do that are set to when the sessions say.
void Simulation::wait() {
    static constexpr uint64_t longest_ms[] = {3, 255, 65'535};
    now_ += std::chrono::milliseconds(input_.number(0, input_.one_of(longest_ms)));
    for (Node &node : nodes_) {
        const auto next = node.session.next_expiry();
        if (next && *next <= now_ && node.session.expire(now_)) {
            require(node.is_connected, "what is given up was there");
            disconnect(node, Lost::unreachable);
        }
    }
}

void Simulation::check_waiting() const {
    size_t waiting = 0;
    size_t pending = 0;
    for (const Node &node : nodes_) {
        const auto next = node.session.next_expiry();
        size_t waiting_here = 0;
        for (const Check &check : checks_) {
            if (check.command != nullptr && node.session.has(*check.command)) {
                ++waiting_here;
                require(next && *next <= check.deadline, "whoever waits is told by the deadline");
            }
        }
        require(node.session.has_waiting() == (waiting_here > 0), "a session knows who waits");
        waiting += waiting_here;
        pending += node.session.pending();
    }
    const auto waits = [](const Check &check) { return check.command != nullptr; };
    require(std::ranges::count_if(checks_, waits) == static_cast<std::ptrdiff_t>(waiting),
            "whoever waits does so for some session");
    require(waiting <= group_.settings.max_pending, "no more wait than may");
    require(pending == group_.commands.in_use(), "each command is some session's");
}

/// What has waited for a connection is told, and answered.
void Simulation::tell_the_rest(Node &node) {
    connect(node);
    send_bytes(node, SIZE_MAX);
    while (node.redis.has_commands()) {
        receive(node, node.redis.answer(input_), true);
        send_bytes(node, SIZE_MAX);
    }
}

/// Everything comes to an end.
void Simulation::end() {
    for (Node &node : nodes_) {
        disconnect(node, Lost::unreachable);
    }
    for (Check &check : checks_) {
        require(check.command == nullptr, "all that were asked are answered");
        release_permits(check);
    }
    for (Node &node : nodes_) {
        tell_the_rest(node);
        disconnect(node, Lost::unreachable);
    }
    now_ += 24h;
    uint64_t counted = 0;
    for (Node &node : nodes_) {
        while (const auto next = node.session.next_expiry()) {
            require(*next <= now_, "nothing is left to wait for");
            require(!node.session.expire(now_), "nothing is unanswered");
        }
        require(!node.session.has_background_commands(), "nothing is left to be told");
        const redis_client::Counters &counters = node.session.counters();
        counted += counters.verdicts + counters.failures + counters.not_asked;
    }
    require(counted <= checks_.size(), "a check is counted once");
    require(group_.commands.in_use() == 0 && group_.background_commands == 0 &&
                group_.permits.in_use() == 0,
            "nothing is left over");
}

} // namespace fuzz
