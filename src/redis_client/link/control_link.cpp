#include "redis_client/link/control_link.hpp"

#include <string>

namespace redis_client {

using std::chrono::milliseconds;

namespace {

/// The question for changes comes more often than that, and an operator's next command may.
constexpr milliseconds longest_idleness{10'000};

} // namespace

ControlLink::ControlLink(BackendContext &context, const MakeAddressSource &make_address_source,
                         Callbacks *callbacks, size_t longest_reply)
    : Link(context, ControlCommand::timeout, make_address_source),
      callbacks_(callbacks),
      session_(context.settings.session, callbacks, longest_reply) {}

void ControlLink::run(ControlCommand &command) {
    session_.run(command);
    update();
}

void ControlLink::take_over(ControlCommand &command, Redirect::Kind kind) {
    session_.take_over(command, kind);
    update();
}

bool ControlLink::cancel(const ControlCommand &command) {
    const bool was_here = session_.cancel(command);
    update();
    return was_here;
}

/// The old master may not know yet that it is none.
void ControlLink::on_moved() {
    connection_->close();
    session_.disconnected({"the master has moved"});
    backoff_.reset();
    connect();
}

void ControlLink::on_lost(const Fault &fault) {
    // If an address refuses at once, the next one is tried.
    if (session_.is_ready() || !try_next_address()) {
        give_up(fault);
    }
}

void ControlLink::give_up(const Fault &fault) {
    const std::string detail(fault.detail); // commands may fail anew while they are told
    const Fault told{fault.what, detail, fault.error, fault.is_refusal};
    const bool at_once = has_served();
    connect_again(at_once, Backoff::longest_after(fault));
    close();
    address_source_->give_up();
    session_.disconnected(told);
    if (!at_once) {
        session_.fail_waiting(told);
    }
    if (callbacks_ != nullptr) {
        callbacks_->on_fault();
    }
    update();
}

void ControlLink::hang_up() {
    close();
    backoff_.reset();
    address_source_->give_up();
    connect_at_once();
    session_.disconnected({"nginx has closed the connection"});
    update();
}

void ControlLink::on_deadline() {
    connection_->read_now();
    if (session_.expire(context_.now())) {
        give_up({"no answer in time"});
    }
    update();
}

/// Does nothing while the session takes replies, whose commands may run others: the link does it
/// then.
void ControlLink::update() {
    if (is_in_session_) {
        return;
    }
    if (session_.is_ready()) {
        connection_->send_soon();
    } else if (session_.has_waiting() && is_at_rest()) {
        connect_at_once(); // not before run() returns
    }
    if (const auto next = session_.next_expiry()) {
        deadline_timer_->start(*next - context_.now());
    } else {
        deadline_timer_->stop();
    }
    deadline_timer_->hold_worker(session_.holds_worker());
    const bool is_idle = session_.is_idle();
    connection_->set_idle(is_idle);
    if (!session_.is_ready()) {
        return;
    }
    if (is_idle && context_.world.is_leaving()) {
        hang_up();
    } else if (is_idle && !connection_timer_->is_running()) {
        start_quiet_timer(longest_idleness);
    } else if (!is_idle) {
        connection_timer_->stop();
    }
}

} // namespace redis_client
