#include "nginx_module/backend/sentinel_master.hpp"

#include "nginx_module/timer.hpp"

#include <utility>

namespace nginx_module {

using redis_client::Sentinel;

namespace {

/// The wait after a Sentinel was lost. Perhaps all of them are being restarted, one after another.
constexpr std::chrono::milliseconds wait_to_listen_again{1000};

} // namespace

SentinelMaster::SentinelMaster(AddressSource::Callbacks &callbacks, const BackendConf &conf,
                               ngx_log_t *log)
    : callbacks_(callbacks),
      conf_(conf),
      sentinels_(*this, conf),
      sentinel_(conf.sentinel),
      connection_(*this, log, conf.tls.get(), conf.connect_timeout) {
    set_up_timer(timer_, this, log, [](ngx_event_t *event) noexcept {
        static_cast<SentinelMaster *>(event->data)->listen_again();
    });
}

SentinelMaster::~SentinelMaster() {
    stop_timer(timer_);
}

std::string_view SentinelMaster::text() const {
    return master_ != nullptr ? master_->text() : sentinels_.current().text();
}

void SentinelMaster::locate(std::chrono::milliseconds timeout) {
    timeout_ = timeout / 2; // for each of two names: a Sentinel's and the master's
    sentinels_.begin_round();
    stop_timer(timer_);
    if (std::exchange(is_news_, false)) {
        take_master();
    } else {
        ask();
    }
}

void SentinelMaster::give_up() {
    stop_timer(timer_);
    if (master_ != nullptr) {
        master_->give_up();
    }
    locating_ = Locating::nothing;
    is_news_ = false;
    connection_.close();
    sentinels_.turn_to_next();
}

void SentinelMaster::ask() {
    connection_.close();
    locating_ = Locating::sentinel;
    sentinels_.locate(timeout_);
}

/// Subscribes to another Sentinel, because the connection to the one before is lost. Meanwhile the
/// master may be in use, or its name may be looked up.
void SentinelMaster::listen_again() {
    if (locating_ == Locating::subscription) {
        ask_next({}, {}); // the subscription takes too long
    } else if (locating_ == Locating::master) {
        start_timer(timer_, wait_to_listen_again);
    } else {
        locating_ = Locating::subscription;
        start_timer(timer_, conf_.connect_timeout);
        sentinels_.locate(timeout_);
    }
}

/// Turns away from a Sentinel that is of no use. If the master is searched for, each Sentinel is
/// asked once before on_not_located() is called.
void SentinelMaster::ask_next(std::string_view what, std::string_view detail) {
    connection_.close();
    sentinels_.turn_to_next();
    if (locating_ != Locating::sentinel) {
        if (locating_ == Locating::subscription) {
            locating_ = Locating::nothing;
        }
        start_timer(timer_, wait_to_listen_again);
        return;
    }
    if (!sentinels_.is_round_over()) {
        ask();
        return;
    }
    locating_ = Locating::nothing;
    callbacks_.on_not_located("no Sentinel tells where the master is",
                              detail.empty() ? what : detail);
}

void SentinelMaster::on_located() {
    if (locating_ == Locating::master) {
        locating_ = Locating::nothing;
        callbacks_.on_located();
        return;
    }
    const ResolvedAddress &sentinel = sentinels_.current();
    connection_.open(sentinel.address(), sentinel.host());
}

void SentinelMaster::on_not_located(std::string_view what, std::string_view detail) {
    if (locating_ == Locating::master) {
        locating_ = Locating::nothing;
        callbacks_.on_not_located(what, detail);
    } else {
        ask_next(what, detail);
    }
}

void SentinelMaster::on_connected() {
    sentinel_.connected();
    connection_.send_soon();
}

void SentinelMaster::on_bytes(std::string_view bytes) {
    switch (sentinel_.received(bytes)) {
    case Sentinel::Progress::more:
        break;
    case Sentinel::Progress::broken:
        ask_next(sentinel_.problem().what, sentinel_.problem().redis_said);
        return;
    case Sentinel::Progress::answered:
        on_master();
        break;
    }
    connection_.set_idle(!is_asking());
}

void SentinelMaster::on_master() {
    if (locating_ == Locating::sentinel) {
        take_master();
        return;
    }
    if (locating_ == Locating::subscription) {
        locating_ = Locating::nothing;
        stop_timer(timer_);
    }
    if (sentinel_.master() != endpoint_) {
        is_news_ = true;
        callbacks_.on_moved();
    }
}

void SentinelMaster::on_lost(const Connection::Loss &loss) {
    ask_next(loss.what, loss.detail);
}

/// Closes the connection, because the worker shuts down.
void SentinelMaster::on_dismissed() {
    connection_.close();
    stop_timer(timer_);
}

void SentinelMaster::take_master() {
    locating_ = Locating::master;
    if (master_ == nullptr || sentinel_.master() != endpoint_) {
        endpoint_ = sentinel_.master();
        ServerAddress name{.host = endpoint_.host, .port = endpoint_.port};
        name.addresses = literal_address(name.host, name.port);
        AddressSource::Callbacks &self = *this;
        master_ = std::make_unique<ResolvedAddress>(self, conf_.resolver, name);
    }
    master_->locate(timeout_);
}

} // namespace nginx_module
