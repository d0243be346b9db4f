#include "redis_client/link/sentinel_master.hpp"

#include <algorithm>
#include <utility>

namespace redis_client {

namespace {

/// The wait after a Sentinel was lost. Perhaps all of them are being restarted, one after another.
constexpr std::chrono::milliseconds wait_to_listen_again{1000};

} // namespace

SentinelMaster::SentinelMaster(AddressSource::Callbacks &callbacks, BackendContext &context)
    : callbacks_(callbacks),
      context_(context),
      sentinels_(*this, context),
      sentinel_(context.settings.sentinel),
      connection_(context.world.make_connection(context.settings.index, *this,
                                                context.settings.connect_timeout)),
      timer_(context.world.make_timer([this] { listen_again(); })) {}

std::string_view SentinelMaster::text() const {
    return master_ != nullptr ? master_->text() : sentinels_.text();
}

void SentinelMaster::locate(std::chrono::milliseconds timeout) {
    timeout_ = timeout / 2; // for each of two names: a Sentinel's and the master's
    sentinels_.begin_round();
    all_refuse_ = true;
    refusals_.reset();
    timer_->stop();
    if (std::exchange(is_news_, false)) {
        take_master();
    } else {
        ask();
    }
}

void SentinelMaster::give_up() {
    timer_->stop();
    if (master_ != nullptr) {
        master_->give_up();
    }
    locating_ = Locating::nothing;
    is_news_ = false;
    connection_->close();
    sentinels_.give_up();
}

void SentinelMaster::ask() {
    connection_->close();
    locating_ = Locating::sentinel;
    sentinels_.locate(timeout_);
}

/// Subscribes to another Sentinel, because the connection to the one before is lost. Meanwhile the
/// master may be in use, or its name may be looked up.
void SentinelMaster::listen_again() {
    if (locating_ == Locating::subscription) {
        ask_next({}); // the subscription takes too long
    } else if (locating_ == Locating::master) {
        timer_->start(wait_to_listen_again);
    } else {
        locating_ = Locating::subscription;
        timer_->start(context_.settings.connect_timeout);
        sentinels_.locate(timeout_);
    }
}

/// Turns away from a Sentinel that is of no use. If the master is searched for, each Sentinel is
/// asked once before on_not_located() is called.
void SentinelMaster::ask_next(const Fault &fault) {
    connection_->close();
    sentinels_.give_up();
    if (locating_ != Locating::sentinel) {
        if (locating_ == Locating::subscription) {
            locating_ = Locating::nothing;
        }
        listen_again_later(fault);
        return;
    }
    all_refuse_ = all_refuse_ && fault.is_refusal;
    if (!sentinels_.is_round_over()) {
        ask();
        return;
    }
    locating_ = Locating::nothing;
    callbacks_.on_not_located({.what = "no Sentinel tells where the master is",
                               .detail = fault.detail.empty() ? fault.what : fault.detail,
                               .is_refusal = all_refuse_});
}

/// Sentinels that refuse the user are asked as seldom as a Redis that does.
void SentinelMaster::listen_again_later(const Fault &fault) {
    if (!fault.is_refusal) {
        refusals_.reset();
        timer_->start(wait_to_listen_again);
        return;
    }
    timer_->start(std::max(wait_to_listen_again,
                           refusals_.next(context_.random(), Backoff::longest_refused)));
}

void SentinelMaster::on_located() {
    if (locating_ == Locating::master) {
        locating_ = Locating::nothing;
        callbacks_.on_located();
        return;
    }
    connection_->open(sentinels_.address(), sentinels_.host());
}

void SentinelMaster::on_not_located(const Fault &fault) {
    if (locating_ == Locating::master) {
        locating_ = Locating::nothing;
        callbacks_.on_not_located(fault);
    } else {
        ask_next(fault);
    }
}

void SentinelMaster::on_connected() {
    sentinel_.connected();
    connection_->send_soon();
}

void SentinelMaster::on_bytes(std::string_view bytes) {
    switch (sentinel_.received(bytes)) {
    case Sentinel::Progress::more:
        break;
    case Sentinel::Progress::broken:
        ask_next({.what = sentinel_.problem().what,
                  .detail = sentinel_.problem().redis_said,
                  .is_refusal = sentinel_.problem().is_refusal});
        return;
    case Sentinel::Progress::answered:
        on_master();
        break;
    }
    connection_->set_idle(!is_asking());
}

void SentinelMaster::on_master() {
    if (locating_ == Locating::sentinel) {
        take_master();
        return;
    }
    if (locating_ == Locating::subscription) {
        locating_ = Locating::nothing;
        timer_->stop();
    }
    if (sentinel_.master() != endpoint_) {
        is_news_ = true;
        callbacks_.on_moved();
    }
}

void SentinelMaster::on_lost(const Fault &fault) {
    ask_next(fault);
}

/// Closes the connection, because the worker shuts down.
void SentinelMaster::on_dismissed() {
    connection_->close();
    timer_->stop();
}

void SentinelMaster::take_master() {
    locating_ = Locating::master;
    if (master_ == nullptr || sentinel_.master() != endpoint_) {
        endpoint_ = sentinel_.master();
        ServerAddress name{.host = endpoint_.host, .port = endpoint_.port};
        name.addresses = literal_address(name.host, name.port);
        AddressSource::Callbacks &self = *this;
        master_ =
            std::make_unique<ResolvedAddress>(self, context_.world, context_.settings.index, name);
    }
    master_->locate(timeout_);
}

} // namespace redis_client
