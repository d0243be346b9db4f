#include "simulation/network.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace simulation {

namespace {

constexpr Time connecting{200};

/// A message comes as a whole, in pieces, or byte by byte.
class Pieces {
  public:
    Pieces(std::string_view bytes, Network &network, uint64_t &splits)
        : rest_(bytes), chance_(network.chance), splits_(splits) {
        is_single_ = bytes.size() > 1 && bytes.size() < 400 && chance_.one_in(500);
        network.counts.single_bytes += is_single_ ? 1 : 0;
    }

    bool empty() const { return rest_.empty(); }
    std::string take() {
        size_t size = rest_.size();
        if (is_single_) {
            size = 1;
        } else if (size > 1 && chance_.one_in(20)) {
            size = 1 + chance_.below(size - 1);
            ++splits_;
        }
        const std::string piece(rest_.substr(0, size));
        rest_.remove_prefix(size);
        return piece;
    }

  private:
    std::string_view rest_;
    Chance &chance_;
    uint64_t &splits_;
    bool is_single_;
};

} // namespace

bool Network::is_busy() const {
    return std::ranges::any_of(connections, &SimulatedConnection::is_busy);
}

/// A worker has one connection to a server for checks, and may have one for operators and one for
/// the map of a cluster. After one that fails it waits at least 25 ms, then twice as long, and so
/// on: this leaves no more than seven in a second for each.
void Network::judge_attempt(const void *process, const std::string &address) {
    constexpr Time second{1'000'000};
    constexpr size_t most = size_t{3} * 7;
    const Time now = timeline.now();
    std::deque<Time> &attempts = attempts_[{process, address}];
    std::erase_if(attempts, [&](Time when) { return when + second <= now; });
    attempts.push_back(now);
    if (attempts.size() > most) {
        complaints.push_back("a worker connects again and again to " + address);
        attempts.clear();
    }
}

void Network::cut(const Server &server) {
    const auto all = connections;
    for (SimulatedConnection *connection : all) {
        if (connection->leads_to(server)) {
            connection->cut();
        }
    }
}

void Network::publish(const Server &server, std::string_view bytes) {
    for (SimulatedConnection *connection : connections) {
        if (connection->leads_to(server)) {
            connection->publish(bytes);
        }
    }
}

/// Lets something happen to the worker's end, if the session is not over then. A worker that is
/// stopped sees it when it goes on.
void SimulatedConnection::later(Time when, const SessionPointer &session,
                                std::function<void()> what) {
    network_.timeline.add(when, [this, session, what = std::move(what)]() mutable {
        if (session->is_over || process_.is_killed()) {
            return;
        }
        if (process_.stopped_until() > network_.timeline.now()) {
            later(process_.stopped_until(), session, std::move(what));
            return;
        }
        what();
    });
}

void SimulatedConnection::open(const redis_client::Address &address, std::string_view /*host*/) {
    close();
    session_ = std::make_shared<Session>();
    is_idle_ = false;
    const Time now = network_.timeline.now();
    network_.judge_attempt(&process_, address.text());
    const auto server = network_.servers.find(address.text());
    if (server == network_.servers.end() || server->second->is_down) {
        ++network_.counts.refused_connections;
        later(now + connecting, session_, [this] { lose("connecting failed"); });
        return;
    }
    if (network_.has_fault(*server->second)) {
        ++network_.counts.silent_connections;
        return; // nothing comes back, ever
    }
    session_->server = server->second;
    later(now + connecting, session_, [this] { accept(); });
}

void SimulatedConnection::accept() {
    const SessionPointer session = session_;
    session->is_accepted = true;
    callbacks_.on_connected();
    if (!session->is_over && session->server->full_until > network_.timeline.now()) {
        ++network_.counts.too_many_clients;
        answer(session, "-ERR max number of clients reached\r\n", false);
        break_at(session->last_answered, session);
    }
}

void SimulatedConnection::close() {
    if (session_ != nullptr) {
        session_->is_over = session_->is_broken = true;
        session_ = nullptr;
    }
    is_to_send_ = false;
}

void SimulatedConnection::lose(std::string_view what) {
    close();
    callbacks_.on_lost({what});
}

void SimulatedConnection::send_soon() {
    if (!is_to_send_ && session_ != nullptr && session_->is_accepted) {
        is_to_send_ = true;
        later(network_.timeline.now(), session_, [this] { send_now(); });
    }
}

void SimulatedConnection::send_now() {
    is_to_send_ = false;
    if (session_ == nullptr || !session_->is_accepted) {
        return;
    }
    redis_client::ByteQueue &output = callbacks_.fill_output();
    Pieces pieces(output.bytes(), network_, network_.counts.split_commands);
    while (!pieces.empty() && !session_->is_broken) {
        const std::string piece = pieces.take();
        session_->last_sent =
            std::max(session_->last_sent, network_.timeline.now() + network_.delay());
        if (network_.has_fault(*session_->server)) {
            ++network_.counts.broken_while_sending;
            break_at(session_->last_sent, session_);
            break;
        }
        network_.timeline.add(session_->last_sent,
                              [this, &network = network_, session = session_, piece] {
                                  arrive(network, *this, session, piece);
                              });
    }
    output.clear();
}

/// The connection ends for both sides, and nothing that is on its way then arrives.
void SimulatedConnection::break_at(Time when, const SessionPointer &session) {
    session->is_broken = true;
    later(when, session, [this] { lose("the connection was closed"); });
}

/// Bytes come to the server. Who has sent them may be gone, if the session is over.
void SimulatedConnection::arrive(Network &network, SimulatedConnection &from,
                                 const SessionPointer &session, const std::string &bytes) {
    session->unread += bytes;
    if (!session->is_read_later) {
        read(network, from, session);
    }
}

/// The server reads what has come, when it does not stand still any more.
void SimulatedConnection::read(Network &network, SimulatedConnection &from,
                               const SessionPointer &session) {
    Server &server = *session->server;
    session->is_read_later = server.stalled_until > network.timeline.now();
    if (session->is_read_later) {
        ++network.counts.stalls;
        network.timeline.add(server.stalled_until,
                             [&network, &from, session] { read(network, from, session); });
        return;
    }
    const std::string bytes = std::exchange(session->unread, {});
    if (server.is_down || session->is_cut || session->peer.was_lied_to) {
        return;
    }
    const std::string replies = server.take(session->peer, bytes);
    if (!session->is_over) {
        from.answer(session, replies, session->peer.was_lied_to);
    }
}

void SimulatedConnection::publish(std::string_view bytes) {
    if (session_->peer.is_subscribed) {
        answer(session_, bytes, false);
    }
}

void SimulatedConnection::answer(const SessionPointer &session, std::string_view bytes,
                                 bool ends_with_lie) {
    Pieces pieces(bytes, network_, network_.counts.split_replies);
    while (!pieces.empty() && !session->is_broken) {
        std::string piece = pieces.take();
        session->last_answered =
            std::max(session->last_answered, network_.timeline.now() + network_.delay());
        if (network_.has_fault(*session->server)) {
            ++network_.counts.broken_while_answering;
            break_at(session->last_answered, session);
            return;
        }
        session->answers.push_back(
            {session->last_answered, std::move(piece), ends_with_lie && pieces.empty()});
        later(session->last_answered, session, [this] { deliver(); });
    }
}

/// Hands over what has come by now. A connection over which a reply came that is none is of no use.
void SimulatedConnection::deliver() {
    const SessionPointer session = session_;
    std::string bytes;
    bool has_lie = false;
    while (!session->answers.empty() && session->answers.front().when <= network_.timeline.now()) {
        bytes += session->answers.front().bytes;
        has_lie = has_lie || session->answers.front().is_lie;
        session->answers.pop_front();
    }
    if (!bytes.empty()) {
        callbacks_.on_bytes(bytes);
    }
    if (has_lie && !session->is_over) {
        network_.complaints.emplace_back("a connection goes on after a reply that is none");
    }
}

void SimulatedConnection::read_now() {
    if (session_ != nullptr && session_->is_accepted) {
        deliver();
    }
}

void SimulatedConnection::cut() {
    if (session_ != nullptr) {
        session_->is_cut = true;
        break_at(network_.timeline.now(), session_);
    }
}

void SimulatedConnection::dismiss() {
    if (session_ != nullptr && is_idle_) {
        callbacks_.on_dismissed();
    }
}

} // namespace simulation
