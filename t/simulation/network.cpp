#include "simulation/network.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace simulation {

namespace {

constexpr Time connecting{200};

/// Takes the first piece off the bytes: all of them, or by chance less.
std::string take_piece(std::string_view &bytes, Chance &chance, uint64_t &splits) {
    size_t size = bytes.size();
    if (size > 1 && chance.one_in(20)) {
        size = 1 + chance.below(size - 1);
        ++splits;
    }
    const std::string piece(bytes.substr(0, size));
    bytes.remove_prefix(size);
    return piece;
}

} // namespace

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

void SimulatedConnection::open(const redis_client::Address & /*address*/,
                               std::string_view /*host*/) {
    close();
    session_ = std::make_shared<Session>();
    is_idle_ = false;
    const Time now = network_.timeline.now();
    if (network_.is_down) {
        ++network_.counts.refused_connections;
        later(now + connecting, session_, [this] { lose("connecting failed"); });
        return;
    }
    if (network_.has_fault()) {
        ++network_.counts.silent_connections;
        return; // nothing comes back, ever
    }
    later(now + connecting, session_, [this] {
        session_->is_accepted = true;
        callbacks_.on_connected();
    });
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
    redis_client::ByteQueue &output = callbacks_.output();
    std::string_view bytes = output.bytes();
    while (!bytes.empty() && !session_->is_broken) {
        const std::string piece =
            take_piece(bytes, network_.chance, network_.counts.split_commands);
        session_->last_sent =
            std::max(session_->last_sent, network_.timeline.now() + network_.delay());
        if (network_.has_fault()) {
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

/// Bytes come to Redis. Who has sent them may be gone, if the session is over.
void SimulatedConnection::arrive(Network &network, SimulatedConnection &from,
                                 const SessionPointer &session, const std::string &bytes) {
    if (network.stalled_until > network.timeline.now()) {
        ++network.counts.stalls;
        network.timeline.add(network.stalled_until, [&network, &from, session, bytes] {
            arrive(network, from, session, bytes);
        });
        return;
    }
    if (network.is_down) {
        return;
    }
    const std::string replies = network.redis.take(session->client, bytes);
    if (!session->is_over) {
        from.answer(session, replies);
    }
}

void SimulatedConnection::answer(const SessionPointer &session, std::string_view bytes) {
    while (!bytes.empty() && !session->is_broken) {
        std::string piece = take_piece(bytes, network_.chance, network_.counts.split_replies);
        session->last_answered =
            std::max(session->last_answered, network_.timeline.now() + network_.delay());
        if (network_.has_fault()) {
            ++network_.counts.broken_while_answering;
            break_at(session->last_answered, session);
            return;
        }
        session->answers.emplace_back(session->last_answered, std::move(piece));
        later(session->last_answered, session, [this] { deliver(); });
    }
}

/// Hands over what has come by now.
void SimulatedConnection::deliver() {
    const SessionPointer session = session_;
    std::string bytes;
    while (!session->answers.empty() && session->answers.front().first <= network_.timeline.now()) {
        bytes += session->answers.front().second;
        session->answers.pop_front();
    }
    if (!bytes.empty()) {
        callbacks_.on_bytes(bytes);
    }
}

void SimulatedConnection::read_now() {
    if (session_ != nullptr && session_->is_accepted) {
        deliver();
    }
}

void SimulatedConnection::cut() {
    if (session_ != nullptr) {
        break_at(network_.timeline.now(), session_);
    }
}

void SimulatedConnection::dismiss() {
    if (session_ != nullptr && is_idle_) {
        callbacks_.on_dismissed();
    }
}

} // namespace simulation
