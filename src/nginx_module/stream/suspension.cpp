#include "nginx_module/stream/suspension.hpp"

#include "nginx_module/client.hpp"

namespace nginx_module::stream {

namespace {

/// An event method that tells of the same thing again and again would keep the worker busy. Returns
/// false if nginx could not take the event from it.
bool silence(ngx_event_t *event, ngx_int_t which) {
    return (ngx_event_flags & NGX_USE_LEVEL_EVENT) == 0 || !event->active ||
           ngx_del_event(event, which, 0) == NGX_OK;
}

/// Handles read events of the client's connection while its session is suspended. What the client
/// sends stays unread, and so does the end of what it sends: the content handler gets both, as it
/// would without the suspension, also from a client that has closed its end of a UNIX-domain
/// socket. The further datagrams of a session over UDP are lost.
void watch_client(ngx_event_t *read) noexcept {
    auto *connection = static_cast<ngx_connection_t *>(read->data);
    auto *s = static_cast<ngx_stream_session_t *>(connection->data);
    if (connection->close) { // worker_shutdown_timeout
        ngx_log_error(NGX_LOG_INFO, connection->log, 0, "shutdown timeout");
        ngx_stream_finalize_session(s, NGX_STREAM_OK);
        return;
    }
    if (connection->type == SOCK_DGRAM) {
        return;
    }
    if (client_end(*connection) == ClientEnd::reset) {
        ngx_log_error(NGX_LOG_INFO, connection->log, 0, "client prematurely closed connection");
        ngx_stream_finalize_session(s, NGX_STREAM_OK);
        return;
    }
    if (!silence(read, NGX_READ_EVENT)) {
        ngx_stream_finalize_session(s, NGX_STREAM_INTERNAL_SERVER_ERROR);
    }
}

/// Handles write events of it. After a TLS handshake nginx's handler is still that of the
/// handshake, which would run the phases again. Events come if the handshake once had to wait until
/// it could write; epoll tells of them with whatever the client sends.
void ignore(ngx_event_t * /*write*/) noexcept {}

} // namespace

Suspension::Suspension(ngx_stream_session_t *s, Callbacks &callbacks)
    : s_(s), callbacks_(callbacks) {
    resume_.set_up<&Suspension::resume>(*this, s->connection->log);
}

bool Suspension::begin() {
    ngx_connection_t *connection = s_->connection;
    ngx_event_t *read = connection->read;
    read->handler = watch_client;
    connection->write->handler = ignore; // until the next handshake or content handler sets its own
    if (!silence(connection->write, NGX_WRITE_EVENT)) {
        return false;
    }
    ngx_log_debug0(NGX_LOG_DEBUG_STREAM, connection->log, 0, "redis_rate_limit waits");
    if (connection->type == SOCK_DGRAM) {
        return true;
    }
    if (!read->ready) {
        return ngx_handle_read_event(read, 0) == NGX_OK;
    }
    if (client_end(*connection) ==
        ClientEnd::reset) { // its event has come already, and does not come again
        ngx_post_event(read, &ngx_posted_events);
    }
    return true;
}

/// A worker that leaves has closed its sockets of UDP, whose numbers may be those of other ones by
/// now: nobody may send to them.
void Suspension::resume() {
    const ngx_connection_t *connection = s_->connection;
    if (connection->type == SOCK_DGRAM && ngx_exiting != 0) {
        ngx_log_error(NGX_LOG_INFO, connection->log, 0, "disconnected on shutdown");
        ngx_stream_finalize_session(s_, NGX_STREAM_OK);
        return;
    }
    callbacks_.on_resume();
    s_->connection->read->handler = ngx_stream_session_handler;
    ngx_stream_core_run_phases(s_);
}

} // namespace nginx_module::stream
