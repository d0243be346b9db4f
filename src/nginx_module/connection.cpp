#include "connection.hpp"

#include <array>

namespace nginx_module {

namespace {

constexpr std::string_view connecting_failed = "connecting failed";
constexpr std::string_view broke = "the connection broke";

Connection &connection_of(const ngx_event_t *event) {
    return *static_cast<Connection *>(static_cast<ngx_connection_t *>(event->data)->data);
}

/// nginx's socket functions log each error that they meet, so each attempt to reconnect. Their
/// debug lines stay.
ngx_log_t quieter(const ngx_log_t &log) {
    ngx_log_t quiet = log;
    if ((log.log_level & NGX_LOG_DEBUG_ALL) == 0) {
        quiet.log_level = ngx_min(log.log_level, static_cast<ngx_uint_t>(NGX_LOG_ALERT));
    }
    return quiet;
}

} // namespace

Connection::Connection(Owner &owner, ngx_log_t *log) : owner_(owner), log_(quieter(*log)) {}

void Connection::open(const ngx_addr_t &address) {
    ngx_peer_connection_t peer{};
    ngx_addr_t to = address;
    peer.sockaddr = to.sockaddr;
    peer.socklen = to.socklen;
    peer.name = &to.name;
    peer.get = ngx_event_get_peer;
    peer.log = &log_;
    peer.so_keepalive = 1;

    ngx_set_socket_errno(0);
    const ngx_int_t result = ngx_event_connect_peer(&peer);
    connection_ = peer.connection;
    if (connection_ == nullptr || (result != NGX_OK && result != NGX_AGAIN)) {
        const ngx_err_t error = ngx_socket_errno;
        lose(error != 0 ? connecting_failed : "nginx has no free connection", error);
        return;
    }
    connected_ = false;
    local_ = address.sockaddr->sa_family == AF_UNIX;
    connection_->data = this;
    connection_->log = connection_->read->log = connection_->write->log = &log_;
    connection_->read->handler = [](ngx_event_t *event) noexcept {
        Connection &self = connection_of(event);
        if (self.connection_->close) {
            self.owner_.on_dismissed();
            return;
        }
        if (!self.connected_) {
            self.finish_connecting();
        }
        self.read();
    };
    connection_->write->handler = [](ngx_event_t *event) noexcept { connection_of(event).write(); };
    if (result == NGX_OK) {
        finish_connecting();
    }
}

void Connection::close() {
    if (connection_ != nullptr) {
        ngx_close_connection(connection_);
        connection_ = nullptr;
    }
}

void Connection::lose(std::string_view what, ngx_err_t error) {
    close();
    owner_.on_lost(what, error);
}

void Connection::finish_connecting() {
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(connection_->fd, SOL_SOCKET, SO_ERROR, &error, &size) == -1) {
        error = ngx_socket_errno;
    }
    if (error != 0) {
        lose(connecting_failed, error);
        return;
    }
    if (!local_) {
        (void)ngx_tcp_nodelay(connection_); // a latency that is lost, no failure
    }
    connected_ = true;
    owner_.on_connected();
}

void Connection::read() {
    if (connection_ == nullptr || !connected_) {
        return; // a deadline may come before the connection does
    }
    std::array<u_char, 16384> buffer;
    while (connection_ != nullptr && connection_->read->ready) {
        const ssize_t size = connection_->recv(connection_, buffer.data(), buffer.size());
        if (size == NGX_AGAIN) {
            break;
        }
        if (size <= 0) {
            lose(size == 0 ? "the connection was closed" : broke, size == 0 ? 0 : ngx_socket_errno);
            return;
        }
        owner_.on_bytes({reinterpret_cast<const char *>(buffer.data()), static_cast<size_t>(size)});
    }
    if (connection_ != nullptr && ngx_handle_read_event(connection_->read, 0) != NGX_OK) {
        lose(broke, NGX_ENOMEM);
    }
}

void Connection::write() {
    if (!connected_) {
        finish_connecting();
    }
    redis_client::ByteQueue &output = owner_.output();
    while (connection_ != nullptr && connection_->write->ready && !output.empty()) {
        const auto bytes = output.bytes();
        auto *data = reinterpret_cast<u_char *>(const_cast<char *>(bytes.data()));
        const ssize_t sent = connection_->send(connection_, data, bytes.size());
        if (sent == NGX_AGAIN) {
            break;
        }
        if (sent == NGX_ERROR) {
            lose(broke, ngx_socket_errno);
            return;
        }
        output.consume(static_cast<size_t>(sent));
    }
    if (connection_ != nullptr && ngx_handle_write_event(connection_->write, 0) != NGX_OK) {
        lose(broke, NGX_ENOMEM);
    }
}

void Connection::send_soon() {
    if (connection_ != nullptr && connected_ && connection_->write->ready) {
        ngx_post_event(connection_->write, &ngx_posted_events);
    }
}

void Connection::set_idle(bool idle) {
    if (connection_ != nullptr) {
        connection_->idle = idle ? 1 : 0;
    }
}

} // namespace nginx_module
