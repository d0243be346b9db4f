#include "nginx_module/backend/node.hpp"

#include "nginx_module/timer.hpp"
#include "nginx_module/util.hpp"
#include "redis_client/script/answer.hpp"

#include <algorithm>

namespace nginx_module {

using redis_client::Session;

namespace {

bool is_leaving() {
    return ngx_exiting != 0 || ngx_terminate != 0;
}

} // namespace

Node::Node(const BackendConf &conf, redis_client::SessionGroup &group,
           redis_client::WorkerCounters &counters, ngx_log_t *log,
           const MakeAddressSource &make_address_source, Callbacks *callbacks)
    : conf_(conf),
      counters_(counters),
      log_(log),
      callbacks_(callbacks),
      session_(group, static_cast<uint32_t>(ngx_random()), callbacks),
      address_source_(make_address_source(*this)),
      connection_(*this, log, conf.tls.get(), conf.session.timeout),
      faults_(conf.name, log),
      key_faults_(conf.name, log) {
    set_up_timer(deadline_timer_, this, log, [](ngx_event_t *event) noexcept {
        static_cast<Node *>(event->data)->on_deadline();
    });
    set_up_timer(connection_timer_, this, log, [](ngx_event_t *event) noexcept {
        static_cast<Node *>(event->data)->on_connection_timer();
    });
    connect();
}

Node::~Node() {
    stop_timer(deadline_timer_);
    stop_timer(connection_timer_);
    session_.disconnected(Session::Lost::unreachable, now()); // fails what still waits
    report_loss();
}

std::variant<redis_client::Command *, redis_client::Failure>
Node::ask(std::span<redis_client::Charge> charges, redis_client::CheckCallbacks &callbacks) {
    // This comes first: if it failed after ask(), the check would be answered before we return it.
    connect_if_dismissed();
    const auto asked = session_.ask(charges, callbacks, now());
    update_after_event();
    return asked;
}

void Node::abandon(redis_client::Command &check) {
    session_.abandon(check, now());
    update_after_event();
}

void Node::hand_over(redis_client::Command &check, std::span<redis_client::Charge> charges,
                     redis_client::CheckCallbacks &callbacks) {
    session_.hand_over(check, charges, callbacks, now());
    update_after_event();
}

void Node::refund(std::span<redis_client::Charge> charges) {
    connect_if_dismissed();
    session_.refund(charges, now());
    update_unless_receiving();
}

void Node::settle(const redis_client::SettlementOrder &order) {
    connect_if_dismissed();
    session_.settle(order);
    update_unless_receiving();
}

void Node::send_now() {
    if (session_.is_ready() && session_.has_output()) {
        connection_.send_now();
    }
}

void Node::release(redis_client::Permit &permit) {
    connect_if_dismissed();
    session_.release(permit, now());
    update_after_event();
}

void Node::take_over(redis_client::Command &call, redis_client::Redirect::Kind kind) {
    connect_if_dismissed();
    session_.take_over(call, kind, now());
    update_unless_receiving();
}

void Node::take_permits(const redis_client::HashSlotSet &of, Node &from) {
    connect_if_dismissed();
    session_.take_permits(of, from.session_);
    update_unless_receiving();
}

void Node::take_settlements(const redis_client::HashSlotSet &of, Session &from) {
    connect_if_dismissed();
    session_.take_settlements(of, from);
    update_unless_receiving();
}

void Node::retire() {
    faults_.leave(address_source_->text());
    key_faults_.leave(address_source_->text());
}

/// Does nothing while the session takes replies, and may call this in the middle of them, for a
/// redirect or for a lease that is returned at once: on_bytes() does it then.
void Node::update_unless_receiving() {
    if (!is_receiving_) {
        update_after_event();
    }
}

void Node::connect_if_dismissed() {
    if (!connection_.is_open() && !is_locating_ && !connection_timer_.timer_set) {
        connect();
    }
}

void Node::connect() {
    start_timer(connection_timer_, conf_.connect_timeout);
    is_locating_ = true;
    // Half of the time is left to connect, perhaps to an address that was good before.
    address_source_->locate(conf_.connect_timeout / 2);
}

void Node::on_located() {
    is_locating_ = false;
#if (NGX_DEBUG)
    ngx_str_t where = to_ngx(address_source_->text());
    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, log_, 0, "redis_rate_limit connects to %V", &where);
#endif
    connection_.open(address_source_->address(), address_source_->host());
}

void Node::on_not_located(std::string_view what, std::string_view detail) {
    give_up({what, detail});
}

/// Checks that were sent to the old master get no verdict. Checks that wait go to the new one.
void Node::on_moved() {
    if (connection_.is_open()) {
        connection_.close();
        session_.disconnected(Session::Lost::in_use, now());
        if (session_.counters().failures != reported_.failures) {
            begin_outage({"the master has moved"});
        }
    }
    backoff_.reset();
    connect();
    update_after_event();
}

/// Ends an attempt to connect that has failed, or a connection that is of no use.
void Node::give_up(const Fault &fault, std::chrono::milliseconds longest_wait) {
    begin_outage(fault);
    is_locating_ = false;
    connection_.close();
    disconnected(Session::Lost::unreachable, longest_wait);
}

redis_client::ByteQueue &Node::output() {
    if (session_.is_ready()) {
        session_.flush(now());
        set_deadline_timer(); // of an answer that is expected from now on
    }
    return session_.output();
}

void Node::on_connected() {
    session_.connected();
    connection_.send_soon();
}

void Node::on_bytes(std::string_view bytes) {
    is_receiving_ = true;
    const Session::Progress progress = session_.received(bytes, now());
    is_receiving_ = false;
    switch (progress) {
    case Session::Progress::more:
        break;
    case Session::Progress::ready:
        on_ready();
        break;
    case Session::Progress::broken:
    case Session::Progress::refused:
        needs_verdict_ = needs_verdict_ || session_.is_ready();
        give_up({session_.problem().what, session_.problem().redis_said},
                progress == Session::Progress::refused ? redis_client::Backoff::longest_refused
                                                       : redis_client::Backoff::longest);
        return;
    }
    update_after_event();
}

void Node::on_ready() {
    ngx_log_debug0(NGX_LOG_DEBUG_HTTP, log_, 0, "redis_rate_limit is connected and logged in");
    is_counted_ready_ = true;
    counters_.connection_ready(ready_since_.count() == 0);
    ready_since_ = now();
    stop_timer(connection_timer_);
    if (has_lasting_faults()) {
        start_timer(connection_timer_, redis_client::Outage::quiet);
    }
}

void Node::on_lost(const Connection::Loss &loss) {
    // If an address refuses at once, the next one is tried before Redis counts as unreachable.
    if (!session_.is_ready() && !session_.is_unreachable() && address_source_->use_next()) {
        session_.disconnected(Session::Lost::in_use, now());
        start_timer(connection_timer_, std::chrono::milliseconds{0});
        update_after_event();
        return;
    }
    // It is no fault if Redis, or a proxy before it, closes a connection that nobody has used.
    if (!has_served() || session_.pending() > 0) {
        begin_outage({loss.what, loss.detail, loss.error});
    }
    disconnected(session_.is_ready() ? Session::Lost::in_use : Session::Lost::unreachable);
}

/// Closes the connection, because the worker shuts down. When worker_shutdown_timeout has passed,
/// nginx does not look whether the connection is idle.
void Node::on_dismissed() {
    connection_.close();
    stop_timer(connection_timer_);
    session_.disconnected(Session::Lost::in_use, now());
    reported_ = session_.counters(); // nginx closed it: there is no fault to log
    report_loss();
    if (is_needed()) {
        start_timer(connection_timer_, std::chrono::milliseconds{0});
    }
    set_deadline_timer();
}

/// Whether the connection was ready for a while. Then it may be replaced at once, by one to the
/// same address. A connection that fails at once, or breaks again and again, must not be replaced
/// in a loop without a wait.
bool Node::has_served() const {
    constexpr std::chrono::milliseconds a_while{1000};
    return session_.is_ready() && now() - ready_since_ >= a_while;
}

void Node::disconnected(Session::Lost lost, std::chrono::milliseconds longest_wait) {
    std::chrono::milliseconds wait{0};
    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, log_, 0,
                   "redis_rate_limit has lost a connection with %uz checks", session_.pending());
    if (has_served()) {
        backoff_.reset();
    }
    if (lost != Session::Lost::in_use || !has_served()) {
        wait = backoff_.next(static_cast<uint32_t>(ngx_random()), longest_wait);
        address_source_->give_up();
    }
    session_.disconnected(lost, now());
    counters_.connection_failed();
    start_timer(connection_timer_, wait);
    update_after_event();
}

void Node::on_connection_timer() {
    if (session_.is_ready()) {
        if (!needs_verdict_) {
            end_outage();
        }
    } else if (connection_.is_open() || is_locating_) {
        give_up({"no connection in time", stage()});
    } else if (!is_leaving() || is_needed()) {
        connect();
    }
}

/// Whether a worker that shuts down still needs a connection.
bool Node::is_needed() const {
    return session_.has_waiting() || session_.has_background_commands() || session_.has_leases();
}

void Node::on_deadline() {
    if (const auto overdue = session_.overdue_at(); overdue && *overdue <= now()) {
        connection_.read_now();
    }
    if (session_.expire(now())) {
        give_up({"no answer for too long"});
    }
    update_after_event();
}

/// Must be called after every call of the session. Logs and counts what has changed in it, sets the
/// deadline timer, and lets the connection go if it is not needed any more.
void Node::update_after_event() {
    const auto &counters = session_.counters();
    if (counters.not_asked != reported_.not_asked && faults_.is_lasting()) {
        faults_.fail(counters.not_asked - reported_.not_asked);
    }
    report_key_failures();
    if (counters.failures != reported_.failures) {
        const std::string_view said = session_.problem().redis_said;
        needs_verdict_ = needs_verdict_ || (session_.is_ready() && !said.empty());
        begin_outage({session_.problem().what, said.empty() ? stage() : said});
    } else if (counters.verdicts != reported_.verdicts) {
        needs_verdict_ = false;
        end_outage();
    }
    if (counters.scripts_sent != reported_.scripts_sent) {
        counters_.scripts_reloaded(counters.scripts_sent - reported_.scripts_sent);
    }
    reported_ = counters;
    report_loss();

    if (session_.is_ready() && session_.has_output()) {
        connection_.send_soon();
    }
    set_deadline_timer();
    const bool idle =
        session_.pending() == 0 && !session_.has_background_commands() && !session_.has_leases();
    connection_.set_idle(idle);
    if (idle && is_leaving() && connection_.is_open()) {
        on_dismissed();
    }
}

void Node::report_loss() {
    if (is_counted_ready_ && !session_.is_ready()) {
        is_counted_ready_ = false;
        counters_.connection_lost();
    }
}

/// The timer keeps a worker alive that shuts down, while a check waits for its verdict or while a
/// background command waits that Redis can take.
void Node::set_deadline_timer() {
    const auto next = session_.next_expiry();
    if (next && (!deadline_timer_.timer_set ||
                 static_cast<ngx_msec_int_t>(deadline_timer_.timer.key -
                                             static_cast<ngx_msec_t>(next->count())) > 0)) {
        start_timer(deadline_timer_, *next - now());
    }
    const bool has_background_commands =
        session_.has_background_commands() && session_.takes_background_commands();
    deadline_timer_.cancelable = session_.has_waiting() || has_background_commands ? 0 : 1;
}

/// Returns what a connection that is not ready is doing, for the log. It is empty for others.
std::string_view Node::stage() const {
    if (is_locating_) {
        return "looking for it";
    }
    if (!connection_.is_open() || session_.is_ready()) {
        return {};
    }
    switch (connection_.stage()) {
    case Connection::Stage::connecting:
        return "connecting";
    case Connection::Stage::shaking_hands:
        return "in the TLS handshake";
    case Connection::Stage::connected:
        return "logging in";
    }
    return {};
}

void Node::report_key_failures() {
    const uint64_t failed_checks = session_.counters().key_failures - reported_.key_failures;
    if (failed_checks > 0) {
        reported_.key_failures += failed_checks;
        reported_.failures += failed_checks;
        const redis_client::Problem &problem = session_.problem();
        key_faults_.fail(
            {.what = problem.what, .detail = problem.redis_said, .checked = problem.checked},
            address_source_->text(), failed_checks);
        if (callbacks_ != nullptr && redis_client::is_error_of_hash_slot(problem.redis_said)) {
            callbacks_->on_fault();
        }
    }
}

/// Records and logs a fault. Only a success after it can end the outage, so the timer that would
/// end it stops.
void Node::begin_outage(const Fault &fault) {
    report_key_failures();
    const uint64_t failed_checks = session_.counters().failures - reported_.failures;
    reported_.failures += failed_checks;
    if (session_.is_ready()) {
        stop_timer(connection_timer_);
    }
    faults_.fail(fault, address_source_->text(), failed_checks);
    if (callbacks_ != nullptr) {
        callbacks_->on_fault();
    }
}

/// Ends the outage after a success. If the last failure was only a moment ago, a timer does it when
/// nothing else has failed for long enough, even if no more checks are asked.
void Node::end_outage() {
    faults_.succeed(address_source_->text());
    key_faults_.succeed(address_source_->text());
    if (has_lasting_faults() && !connection_timer_.timer_set) {
        start_timer(connection_timer_, redis_client::Outage::quiet);
    }
}

} // namespace nginx_module
