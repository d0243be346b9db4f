#include "nginx_module/backend/control_connection.hpp"

#include "nginx_module/timer.hpp"
#include "nginx_module/util.hpp"

#include <string>

namespace nginx_module {

using redis_client::ControlCommand;
using redis_client::ControlSession;

namespace {

/// The question for changes comes more often than that, and an operator's next command may.
constexpr std::chrono::milliseconds longest_idleness{10'000};

bool is_leaving() {
    return ngx_exiting != 0 || ngx_terminate != 0;
}

} // namespace

ControlConnection::ControlConnection(const BackendConf &conf, ngx_log_t *log,
                                     const MakeAddressSource &make_address_source,
                                     Callbacks *callbacks)
    : conf_(conf),
      callbacks_(callbacks),
      redirects_(*this),
      session_(conf.session, callbacks != nullptr ? &redirects_ : nullptr),
      address_source_(make_address_source(*this)),
      connection_(*this, log, conf.tls.get(), ControlCommand::timeout) {
    set_up_timer(deadline_timer_, this, log, [](ngx_event_t *event) noexcept {
        static_cast<ControlConnection *>(event->data)->on_deadline();
    });
    set_up_timer(connection_timer_, this, log, [](ngx_event_t *event) noexcept {
        static_cast<ControlConnection *>(event->data)->on_connection_timer();
    });
}

ControlConnection::~ControlConnection() {
    stop_timer(deadline_timer_);
    stop_timer(connection_timer_);
}

void ControlConnection::run(ControlCommand &command) {
    session_.run(command);
    update();
}

void ControlConnection::take_over(ControlCommand &command, redis_client::Redirect::Kind kind) {
    session_.take_over(command, kind);
    update();
}

bool ControlConnection::cancel(const ControlCommand &command) {
    const bool was_here = session_.cancel(command);
    update();
    return was_here;
}

/// While the timer is set, this may be in the middle of telling commands that they have failed.
bool ControlConnection::is_unused() const {
    return !connection_.is_open() && !is_locating_ && connection_timer_.timer_set == 0 &&
           session_.is_idle();
}

void ControlConnection::connect() {
    start_timer(connection_timer_, conf_.connect_timeout);
    is_locating_ = true;
    // Half of the time is left to connect, as in Node.
    address_source_->locate(conf_.connect_timeout / 2);
}

void ControlConnection::on_located() {
    is_locating_ = false;
    connection_.open(address_source_->address(), address_source_->host());
}

void ControlConnection::on_not_located(std::string_view what, std::string_view detail) {
    give_up(what, detail);
}

/// The old master may not know yet that it is none.
void ControlConnection::on_moved() {
    connection_.close();
    session_.disconnected("the master has moved", {});
    backoff_.reset();
    connect();
}

void ControlConnection::on_connected() {
    session_.connected();
    if (session_.is_ready()) {
        on_ready();
    }
    connection_.send_soon();
}

void ControlConnection::on_bytes(std::string_view bytes) {
    is_receiving_ = true;
    const ControlSession::Progress progress = session_.received(bytes);
    is_receiving_ = false;
    switch (progress) {
    case ControlSession::Progress::more:
        break;
    case ControlSession::Progress::ready:
        on_ready();
        break;
    case ControlSession::Progress::broken:
        give_up(session_.what(), session_.detail());
        return;
    case ControlSession::Progress::refused:
        give_up(session_.what(), session_.detail(), redis_client::Backoff::longest_refused);
        return;
    }
    update();
}

void ControlConnection::on_ready() {
    ready_since_ = now();
    stop_timer(connection_timer_);
}

void ControlConnection::on_lost(const Connection::Loss &loss) {
    // If an address refuses at once, the next one is tried.
    if (!session_.is_ready() && address_source_->use_next()) {
        start_timer(connection_timer_, std::chrono::milliseconds{0});
        return;
    }
    if (loss.error == 0) {
        give_up(loss.what, loss.detail);
        return;
    }
    u_char text[NGX_MAX_ERROR_STR];
    const u_char *end = ngx_strerror(loss.error, text, sizeof(text));
    give_up(loss.what, {reinterpret_cast<char *>(text), static_cast<size_t>(end - text)});
}

/// Ends an attempt to connect that has failed, or a connection that is of no use.
void ControlConnection::give_up(std::string_view what, std::string_view detail,
                                std::chrono::milliseconds longest_wait) {
    constexpr std::chrono::milliseconds a_while{1000};
    const bool has_served = session_.is_ready() && now() - ready_since_ >= a_while;
    std::chrono::milliseconds wait{0};
    if (has_served) {
        backoff_.reset();
    } else {
        wait = backoff_.next(static_cast<uint32_t>(ngx_random()), longest_wait);
    }
    const std::string why(detail);
    is_locating_ = false;
    connection_.close();
    address_source_->give_up();
    start_timer(connection_timer_, wait);
    session_.disconnected(what, why);
    if (!has_served) {
        session_.fail_waiting(what, why);
    }
    if (callbacks_ != nullptr) {
        callbacks_->on_fault();
    }
    update();
}

/// Closes the connection without a fault.
void ControlConnection::close() {
    connection_.close();
    address_source_->give_up();
    start_timer(connection_timer_, std::chrono::milliseconds{0});
    session_.disconnected("nginx has closed the connection", {});
    update();
}

/// Closes the connection, because the worker shuts down.
void ControlConnection::on_dismissed() {
    close();
}

void ControlConnection::on_connection_timer() {
    if (session_.is_ready()) {
        close();
    } else if (connection_.is_open() || is_locating_) {
        give_up("no connection in time", {});
    } else if (session_.has_waiting()) {
        connect();
    }
}

void ControlConnection::on_deadline() {
    connection_.read_now();
    if (session_.expire(now())) {
        give_up("no answer in time", {});
    }
    update();
}

/// Must be called after every call of the session. Does nothing while the session takes replies,
/// whose commands may run others: on_bytes() does it then.
void ControlConnection::update() {
    if (is_receiving_) {
        return;
    }
    if (session_.is_ready()) {
        connection_.send_soon();
    } else if (session_.has_waiting() && !connection_.is_open() && !is_locating_ &&
               !connection_timer_.timer_set) {
        start_timer(connection_timer_, std::chrono::milliseconds{0}); // not before run() returns
    }
    if (const auto next = session_.next_expiry()) {
        start_timer(deadline_timer_, *next - now());
    } else {
        stop_timer(deadline_timer_);
    }
    deadline_timer_.cancelable = session_.holds_worker() ? 0 : 1;
    const bool is_idle = session_.is_idle();
    connection_.set_idle(is_idle);
    if (!session_.is_ready()) {
        return;
    }
    if (is_idle && is_leaving()) {
        close();
    } else if (is_idle && !connection_timer_.timer_set) {
        start_timer(connection_timer_, longest_idleness);
    } else if (!is_idle) {
        stop_timer(connection_timer_);
    }
}

} // namespace nginx_module
