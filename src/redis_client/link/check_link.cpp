#include "redis_client/link/check_link.hpp"

#include "redis_client/script/answer.hpp"

#include <algorithm>

namespace redis_client {

using std::chrono::milliseconds;

namespace {

/// A worker that shuts down may have many requests that settle one after the other. Each would need
/// a connection of its own if an idle one were closed at once.
constexpr milliseconds longest_idleness_of_leaving{1000};

} // namespace

CheckLink::CheckLink(BackendContext &context, const MakeAddressSource &make_address_source,
                     Callbacks *callbacks)
    : Link(context, context.settings.session.timeout, make_address_source),
      callbacks_(callbacks),
      session_(context.group, context.random(), callbacks),
      faults_(context.settings.name, Problem::Cause::redis, context.world, context.log),
      key_faults_(context.settings.name, Problem::Cause::keys, context.world, context.log),
      clock_faults_(context.settings.name, Problem::Cause::clocks, context.world, context.log) {
    connect();
}

CheckLink::~CheckLink() {
    deadline_timer_->stop();
    connection_timer_->stop();
    end_session(Session::Lost::unreachable); // fails what still waits
    report_loss();
    faults_.leave(address_source_->text(), session_.counters().failures - reported_.failures);
    key_faults_.leave(address_source_->text());
    clock_faults_.leave(address_source_->text());
}

std::variant<Command *, Failure> CheckLink::ask(std::span<Charge> charges,
                                                CheckCallbacks &callbacks) {
    // This comes first: if it failed after ask(), the check would be answered before we return it.
    connect_if_dismissed();
    const auto asked = session_.ask(charges, callbacks, context_.now());
    update();
    return asked;
}

void CheckLink::abandon(Command &check) {
    session_.abandon(check, context_.now());
    update();
}

void CheckLink::refund(std::span<Charge> charges) {
    connect_if_dismissed();
    session_.refund(charges, context_.now());
    update();
}

void CheckLink::settle(const SettlementOrder &order) {
    connect_if_dismissed();
    session_.settle(order);
    update();
}

void CheckLink::send_now() {
    if (session_.is_ready() && session_.has_output()) {
        connection_->send_now();
    }
}

void CheckLink::release(Permit &permit) {
    connect_if_dismissed();
    session_.release(permit, context_.now());
    update();
}

void CheckLink::take_over(Command &command, Redirect::Kind kind) {
    connect_if_dismissed();
    session_.take_over(command, kind, context_.now());
    update();
}

void CheckLink::take_permits(const HashSlotSet &of, CheckLink &from) {
    connect_if_dismissed();
    session_.take_permits(of, from.session_);
    update();
}

void CheckLink::take_settlements(const HashSlotSet &of, Session &from) {
    connect_if_dismissed();
    session_.take_settlements(of, from);
    update();
}

void CheckLink::connect_if_dismissed() {
    if (is_at_rest() && !is_in_session_) {
        connect();
    }
}

void CheckLink::on_connecting() {
    context_.log.on_connecting(address_source_->text());
}

/// Checks that were sent to the old master get no verdict. Checks that wait go to the new one.
void CheckLink::on_moved() {
    if (connection_->is_open()) {
        connection_->close();
        end_session(Session::Lost::in_use);
        if (session_.counters().failures != reported_.failures) {
            begin_outage({"the master has moved"});
        }
    }
    backoff_.reset();
    connect();
    update();
}

void CheckLink::give_up(const Fault &fault) {
    const milliseconds longest_wait = Backoff::longest_after(fault);
    begin_outage(fault);
    close();
    disconnected(Session::Lost::unreachable, longest_wait);
}

ByteQueue &CheckLink::fill_output() {
    if (session_.is_ready()) {
        session_.flush(context_.now());
        set_timers(); // of an answer that is expected from now on
    }
    return session_.output();
}

SessionProgress CheckLink::receive(std::string_view bytes) {
    const SessionProgress progress = session_.received(bytes, context_.now());
    if (progress == SessionProgress::broken || progress == SessionProgress::refused) {
        needs_verdict_ = needs_verdict_ || session_.is_ready();
    }
    return progress;
}

Fault CheckLink::problem() const {
    return {session_.problem().what, session_.problem().redis_said};
}

void CheckLink::on_ready() {
    context_.log.on_ready();
    is_counted_ready_ = true;
    context_.counters.connection_ready(ready_since_.count() == 0);
    connection_timer_->stop();
    if (may_outage_end()) {
        start_quiet_timer(Outage::quiet);
    }
}

void CheckLink::on_quiet() {
    end_outages();
    if (context_.world.is_leaving() && is_idle()) {
        on_dismissed();
    }
}

void CheckLink::on_lost(const Fault &fault) {
    // If an address refuses at once, the next one is tried before Redis counts as unreachable.
    if (!session_.is_ready() && !session_.is_unreachable() && try_next_address()) {
        end_session(Session::Lost::in_use);
        update();
        return;
    }
    // It is no fault if Redis, or a proxy before it, closes a connection that nobody has used.
    if (!has_served() || session_.pending() > 0) {
        begin_outage(fault);
    }
    disconnected(session_.is_ready() ? Session::Lost::in_use : Session::Lost::unreachable,
                 Backoff::longest);
}

/// Closes the connection, because the worker shuts down. A connection that is not idle is closed,
/// too, if that takes too long.
void CheckLink::on_dismissed() {
    connection_->close();
    connection_timer_->stop();
    end_session(Session::Lost::in_use);
    reported_ = session_.counters(); // there is no fault to log
    report_loss();
    if (is_needed()) {
        connect_at_once();
    }
    set_timers();
}

void CheckLink::disconnected(Session::Lost lost, milliseconds longest_wait) {
    context_.log.on_lost(session_.pending());
    const bool at_once = lost == Session::Lost::in_use && has_served();
    connect_again(at_once, longest_wait);
    if (!at_once) {
        address_source_->give_up();
    }
    end_session(lost);
    context_.counters.connection_failed();
    update();
}

/// Whoever hears that a check has failed may ask or settle at once. What follows for the connection
/// and for the log is up to the caller of this function, who knows why the session ends.
void CheckLink::end_session(Session::Lost lost) {
    is_in_session_ = true;
    session_.disconnected(lost, context_.now());
    is_in_session_ = false;
}

bool CheckLink::is_wanted() const {
    return !context_.world.is_leaving() || is_needed();
}

/// Whether a worker that shuts down still needs a connection.
bool CheckLink::is_needed() const {
    return session_.has_waiting() || session_.has_background_commands() || session_.has_leases();
}

void CheckLink::on_deadline() {
    if (const auto overdue = session_.overdue_at(); overdue && *overdue <= context_.now()) {
        connection_->read_now();
    }
    if (session_.expire(context_.now())) {
        give_up({"no answer for too long"});
    }
    update();
}

/// Logs and counts what has changed in the session, sets the timers, and lets the connection of a
/// worker that shuts down go before long if it is not needed any more. Does nothing while the
/// session takes replies or ends, and may call this in the middle of that, for a redirect or for a
/// lease that is returned at once: the link does it then.
void CheckLink::update() {
    if (is_in_session_) {
        return;
    }
    const auto &counters = session_.counters();
    if (counters.not_asked != reported_.not_asked && faults_.is_lasting()) {
        faults_.fail(counters.not_asked - reported_.not_asked);
    }
    report_check_failures();
    if (counters.failures != reported_.failures) {
        const std::string_view said = session_.problem().redis_said;
        needs_verdict_ = needs_verdict_ || (session_.is_ready() && !said.empty());
        begin_outage({session_.problem().what, said.empty() ? stage() : said});
    } else if (counters.verdicts != reported_.verdicts) {
        needs_verdict_ = false;
        end_outages();
    }
    if (counters.scripts_sent != reported_.scripts_sent) {
        context_.counters.scripts_reloaded(counters.scripts_sent - reported_.scripts_sent);
    }
    reported_ = counters;
    report_loss();

    if (session_.is_ready() && session_.has_output()) {
        connection_->send_soon();
    }
    set_timers();
    connection_->set_idle(is_idle());
    if (context_.world.is_leaving() && session_.is_ready() && is_idle() &&
        !connection_timer_->is_running()) {
        start_quiet_timer(longest_idleness_of_leaving);
    }
}

/// Whether nothing needs the connection now.
bool CheckLink::is_idle() const {
    return session_.pending() == 0 && !session_.has_background_commands() && !session_.has_leases();
}

void CheckLink::report_loss() {
    if (is_counted_ready_ && !session_.is_ready()) {
        is_counted_ready_ = false;
        context_.counters.connection_lost();
    }
}

/// The timers keep a worker alive that shuts down, while a check waits for its verdict or while a
/// background command waits that Redis can take. What waits for a connection has no deadline of its
/// own: the attempt to connect has, and where it fails Redis cannot take anything.
void CheckLink::set_timers() {
    const auto next = session_.next_expiry();
    if (next && (!deadline_timer_->is_running() || deadline_ > *next)) {
        deadline_ = *next;
        deadline_timer_->start(*next - context_.now());
    }
    const bool has_background_commands =
        session_.has_background_commands() && session_.takes_background_commands();
    deadline_timer_->hold_worker(session_.has_waiting() || has_background_commands);
    connection_timer_->hold_worker(has_background_commands && !session_.is_ready());
}

std::string_view CheckLink::stage() const {
    if (is_locating_) {
        return "looking for it";
    }
    if (!connection_->is_open() || session_.is_ready()) {
        return {};
    }
    switch (connection_->stage()) {
    case Connection::Stage::connecting:
        return "connecting";
    case Connection::Stage::shaking_hands:
        return "in the TLS handshake";
    case Connection::Stage::connected:
        return "logging in";
    }
    return {};
}

/// Tells what is at fault by the last of the failures.
void CheckLink::report_check_failures() {
    const uint64_t failed_checks = session_.counters().check_failures - reported_.check_failures;
    if (failed_checks > 0) {
        reported_.check_failures += failed_checks;
        reported_.failures += failed_checks;
        const Problem &problem = session_.problem();
        OutageLog &faults = problem.cause == Problem::Cause::clocks ? clock_faults_ : key_faults_;
        faults.fail({problem.what, problem.redis_said}, address_source_->text(), failed_checks,
                    problem.checked);
        if (callbacks_ != nullptr && is_error_of_hash_slot(problem.redis_said)) {
            callbacks_->on_fault();
        }
    }
}

/// Records and logs a fault. Only a success after it can end the outage, so the timer that would
/// end it stops.
void CheckLink::begin_outage(const Fault &fault) {
    report_check_failures();
    const uint64_t failed_checks = session_.counters().failures - reported_.failures;
    reported_.failures += failed_checks;
    if (session_.is_ready()) {
        connection_timer_->stop();
    }
    faults_.fail(fault, address_source_->text(), failed_checks);
    if (callbacks_ != nullptr) {
        callbacks_->on_fault();
    }
}

/// Whether nothing has to succeed any more before an outage may end. A verdict proves it for other
/// faults than those of writes, keys and calendars; where Redis has only been out of reach, a
/// connection does.
bool CheckLink::is_proven_over(const OutageLog &faults) const {
    const bool needs_verdict = needs_verdict_ && &faults == &faults_;
    return !needs_verdict && !session_.suspects().has(faults.cause());
}

bool CheckLink::may_outage_end() {
    return std::ranges::any_of(all_faults(), [this](const OutageLog *faults) {
        return faults->is_lasting() && is_proven_over(*faults);
    });
}

/// Ends the outages of which a success has proven that they are over, and those that are stale. If
/// the last failure was only a moment ago, a timer does it when nothing else has failed for long
/// enough, even if no more checks are asked.
void CheckLink::end_outages() {
    for (OutageLog *faults : all_faults()) {
        if (is_proven_over(*faults)) {
            faults->succeed(address_source_->text());
        } else if (faults->forget(address_source_->text())) {
            session_.forget_suspects(faults->cause());
        }
    }
    if (may_outage_end() && !connection_timer_->is_running()) {
        start_quiet_timer(Outage::quiet);
    }
}

} // namespace redis_client
