#include "redis_client/link/link.hpp"

namespace redis_client {

using std::chrono::milliseconds;

Link::Link(BackendContext &context, milliseconds answer_timeout,
           const MakeAddressSource &make_address_source)
    : context_(context),
      address_source_(make_address_source(*this)),
      connection_(context.world.make_connection(context.settings.index, *this, answer_timeout)),
      deadline_timer_(context.world.make_timer([this] { on_deadline(); })),
      connection_timer_(context.world.make_timer([this] { on_connection_timer(); })) {}

void Link::connect() {
    const milliseconds timeout = context_.settings.connect_timeout;
    connection_timer_->start(timeout);
    is_locating_ = true;
    // Half of the time is left to connect, perhaps to an address that was good before.
    address_source_->locate(timeout / 2);
}

void Link::on_located() {
    is_locating_ = false;
    on_connecting();
    connection_->open(address_source_->address(), address_source_->host());
}

void Link::on_not_located(const Fault &fault) {
    give_up(fault);
}

void Link::on_connected() {
    begin_session();
    if (is_ready()) {
        become_ready();
    }
    connection_->send_soon();
}

void Link::on_bytes(std::string_view bytes) {
    is_in_session_ = true;
    const SessionProgress progress = receive(bytes);
    is_in_session_ = false;
    switch (progress) {
    case SessionProgress::more:
        break;
    case SessionProgress::ready:
        become_ready();
        break;
    case SessionProgress::broken:
        give_up(problem());
        return;
    case SessionProgress::refused:
        Fault refusal = problem();
        refusal.is_refusal = true;
        give_up(refusal);
        return;
    }
    update();
}

void Link::become_ready() {
    on_ready();
    ready_since_ = context_.now();
}

void Link::on_connection_timer() {
    if (is_ready()) {
        on_quiet();
    } else if (connection_->is_open() || is_locating_) {
        give_up({"no connection in time", stage()});
    } else if (is_wanted()) {
        connect();
    }
}

bool Link::try_next_address() {
    if (!address_source_->use_next()) {
        return false;
    }
    connect_at_once();
    return true;
}

bool Link::has_served() const {
    constexpr milliseconds a_while{1000};
    return is_ready() && context_.now() - ready_since_ >= a_while;
}

void Link::connect_again(bool at_once, milliseconds longest_wait) {
    if (has_served()) {
        backoff_.reset();
    }
    connection_timer_->start(at_once ? milliseconds{0}
                                     : backoff_.next(context_.random(), longest_wait));
}

void Link::close() {
    is_locating_ = false;
    connection_->close();
}

} // namespace redis_client
