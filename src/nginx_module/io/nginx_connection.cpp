#include "nginx_module/io/nginx_connection.hpp"

#include "nginx_module/util.hpp"

#include <algorithm>
#include <array>

namespace nginx_module {

using redis_client::Fault;

namespace {

constexpr std::string_view connecting_failed = "connecting failed";
constexpr std::string_view broke = "the connection broke";

NginxConnection &connection_of(const ngx_event_t *event) {
    return *static_cast<NginxConnection *>(static_cast<ngx_connection_t *>(event->data)->data);
}

} // namespace

NginxConnection::NginxConnection(Callbacks &callbacks, ngx_log_t *log, const TlsContext *tls,
                                 std::chrono::milliseconds answer_timeout)
    : callbacks_(callbacks), log_(*log), tls_context_(tls), answer_timeout_(answer_timeout) {}

void NginxConnection::open(const redis_client::Address &address, std::string_view host) {
    disconnect();
    if (tls_context_ != nullptr && (tls_ == nullptr || host_ != host)) {
        host_ = host;
        tls_ = make_tls_peer(*tls_context_, host_);
    }
    ngx_peer_connection_t peer{};
    ngx_str_t name = to_ngx(address.text());
    peer.sockaddr = const_cast<sockaddr *>(address.get());
    peer.socklen = address.size();
    peer.name = &name;
    peer.get = ngx_event_get_peer;
    peer.log = log_.log();
    peer.so_keepalive = 1;

    log_.clear();
    ngx_set_socket_errno(0);
    const ngx_int_t result = ngx_event_connect_peer(&peer);
    connection_ = peer.connection;
    if (connection_ == nullptr || (result != NGX_OK && result != NGX_AGAIN)) {
        const ngx_err_t error = ngx_socket_errno;
        lose({.what = error != 0 ? connecting_failed : "nginx has no free connection",
              .error = error});
        return;
    }
    stage_ = Stage::connecting;
    is_local_ = address.is_local();
    connection_->data = this;
    connection_->log = connection_->read->log = connection_->write->log = log_.log();
    set_handlers();
    if (result == NGX_OK) {
        finish_connecting();
    }
}

void NginxConnection::set_handlers() {
    connection_->read->handler = [](ngx_event_t *event) noexcept {
        NginxConnection &self = connection_of(event);
        if (self.connection_->close) {
            self.callbacks_.on_dismissed();
            return;
        }
        if (self.stage_ == Stage::connecting) {
            self.finish_connecting();
        }
        self.read();
    };
    connection_->write->handler = [](ngx_event_t *event) noexcept { connection_of(event).write(); };
}

void NginxConnection::disconnect() {
    if (connection_ != nullptr) {
        if (tls_ != nullptr) {
            tls_->shut_down(*connection_);
        }
        ngx_close_connection(connection_);
        connection_ = nullptr;
    }
}

/// Says why the connection broke. With TLS the errno is not that of the socket, so the last log
/// message of OpenSSL says it.
Fault NginxConnection::broken() const {
    return tls_ == nullptr ? Fault{.what = broke, .error = ngx_socket_errno}
                           : Fault{.what = broke, .detail = log_.last()};
}

void NginxConnection::lose(const Fault &fault) {
    disconnect();
    callbacks_.on_lost(fault);
}

void NginxConnection::finish_connecting() {
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(connection_->fd, SOL_SOCKET, SO_ERROR, &error, &size) == -1) {
        error = ngx_socket_errno;
    }
    if (error != 0) {
        lose({.what = connecting_failed, .error = error});
        return;
    }
    if (!is_local_) {
        (void)ngx_tcp_nodelay(connection_); // a failure only costs latency
        watch_peer();
    }
    if (tls_ == nullptr) {
        begin();
        return;
    }
    stage_ = Stage::shaking_hands;
    continue_handshake(
        tls_->begin_handshake(*connection_, [](ngx_connection_t *connection) noexcept {
            auto &self = *static_cast<NginxConnection *>(connection->data);
            self.continue_handshake(self.tls_->end_handshake(*connection));
        }));
}

/// Lets the kernel find out that the peer is gone without a word, as behind a load balancer that
/// has forgotten the connection. It asks the peer while the connection is quiet, before a check
/// depends on it, which costs a packet every two seconds and wakes neither nginx nor Redis. And it
/// gives up what the peer's kernel does not acknowledge, which a Redis that is merely slow does.
void NginxConnection::watch_peer() {
    // After a packet is lost it is sent again once before the connection is given up: Linux waits
    // at least 200 ms for that, and for about twice the round trip.
    constexpr std::chrono::milliseconds shortest_timeout{500};
    [[maybe_unused]] const auto unacknowledged =
        static_cast<int>(std::max(shortest_timeout, answer_timeout_).count());
    [[maybe_unused]] const int quiet_seconds = 2;
    [[maybe_unused]] const int seconds_between_questions = 1;
    [[maybe_unused]] const int questions = 2;
    [[maybe_unused]] const auto set = [this](int option, int value) {
        (void)setsockopt(connection_->fd, IPPROTO_TCP, option, &value, sizeof(value));
    };
#if (NGX_HAVE_KEEPALIVE_TUNABLE)
    set(TCP_KEEPIDLE, quiet_seconds);
    set(TCP_KEEPINTVL, seconds_between_questions);
    set(TCP_KEEPCNT, questions);
#endif
#ifdef TCP_USER_TIMEOUT
    set(TCP_USER_TIMEOUT, unacknowledged);
#endif
}

void NginxConnection::continue_handshake(TlsPeer::Handshake handshake) {
    if (handshake == TlsPeer::Handshake::going_on) {
        return;
    }
    if (handshake == TlsPeer::Handshake::failed) {
        lose({.what = "the TLS handshake failed", .detail = log_.last()});
        return;
    }
    if (const std::string_view problem = tls_->distrust(*connection_); !problem.empty()) {
        lose({.what = "TLS verification failed", .detail = problem});
        return;
    }
    set_handlers();
    begin();
}

void NginxConnection::begin() {
    stage_ = Stage::connected;
    callbacks_.on_connected();
}

void NginxConnection::read_now() {
    if (connection_ != nullptr && stage_ == Stage::connected) {
        connection_->read->ready = 1;
        connection_->read->available = -1; // or recv() goes by what epoll has reported
        read();
    }
}

void NginxConnection::read() {
    std::array<u_char, 16384> buffer;
    while (connection_ != nullptr && stage_ == Stage::connected && connection_->read->ready) {
        const ssize_t size = connection_->recv(connection_, buffer.data(), buffer.size());
        if (size == NGX_AGAIN) {
            break;
        }
        if (size <= 0) {
            lose(size == 0 ? Fault{.what = "the connection was closed"} : broken());
            return;
        }
        callbacks_.on_bytes(
            {reinterpret_cast<const char *>(buffer.data()), static_cast<size_t>(size)});
    }
    if (connection_ != nullptr && ngx_handle_read_event(connection_->read, 0) != NGX_OK) {
        lose({.what = broke, .error = NGX_ENOMEM});
    }
}

void NginxConnection::write() {
    if (stage_ == Stage::connecting) {
        finish_connecting();
    }
    if (connection_ == nullptr || stage_ != Stage::connected) {
        return; // nothing is sent before the peer is verified
    }
    redis_client::ByteQueue &output = callbacks_.fill_output();
    while (connection_ != nullptr && connection_->write->ready && !output.empty()) {
        const auto bytes = output.bytes();
        auto *data = reinterpret_cast<u_char *>(const_cast<char *>(bytes.data()));
        const ssize_t sent = connection_->send(connection_, data, bytes.size());
        if (sent == NGX_AGAIN) {
            break;
        }
        if (sent == NGX_ERROR) {
            const Fault fault = broken();
            const ngx_atomic_uint_t broken_one = connection_->number;
            read_now(); // what the peer sent before it closed says more
            if (connection_ != nullptr && connection_->number == broken_one) {
                lose(fault);
            }
            return;
        }
        output.consume(static_cast<size_t>(sent));
    }
    if (connection_ != nullptr && ngx_handle_write_event(connection_->write, 0) != NGX_OK) {
        lose({.what = broke, .error = NGX_ENOMEM});
    }
}

void NginxConnection::send_soon() {
    if (connection_ != nullptr && stage_ == Stage::connected && connection_->write->ready) {
        ngx_post_event(connection_->write, &ngx_posted_events);
    }
}

void NginxConnection::set_idle(bool idle) {
    if (connection_ != nullptr) {
        connection_->idle = idle ? 1 : 0;
    }
}

} // namespace nginx_module
