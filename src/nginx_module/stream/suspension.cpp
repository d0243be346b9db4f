#include "nginx_module/stream/suspension.hpp"

#include "nginx_module/client.hpp"

namespace nginx_module::stream {

namespace {

/// Handles events of the client's connection while its session is suspended. What the client sends
/// stays unread, and so does the end of what it sends: the content handler gets both, as it would
/// without the suspension. The further datagrams of a session over UDP are lost.
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
    if (is_dead(*connection)) {
        ngx_log_error(NGX_LOG_INFO, connection->log, 0, "client prematurely closed connection");
        ngx_stream_finalize_session(s, NGX_STREAM_OK);
        return;
    }
    // An event method that tells of unread data again and again would keep the worker busy.
    if ((ngx_event_flags & NGX_USE_LEVEL_EVENT) != 0 && read->active &&
        ngx_del_event(read, NGX_READ_EVENT, 0) != NGX_OK) {
        ngx_stream_finalize_session(s, NGX_STREAM_INTERNAL_SERVER_ERROR);
    }
}

} // namespace

Suspension::Suspension(ngx_stream_session_t *s) : s_(s) {
    resume_.set_up<&Suspension::resume>(*this, s->connection->log);
}

bool Suspension::begin() {
    ngx_connection_t *connection = s_->connection;
    ngx_event_t *read = connection->read;
    read->handler = watch_client;
    ngx_log_debug0(NGX_LOG_DEBUG_STREAM, connection->log, 0, "redis_rate_limit waits");
    if (connection->type == SOCK_DGRAM) {
        return true;
    }
    if (!read->ready) {
        return ngx_handle_read_event(read, 0) == NGX_OK;
    }
    if (is_dead(*connection)) { // its event has come already, and does not come again
        ngx_post_event(read, &ngx_posted_events);
    }
    return true;
}

void Suspension::resume() {
    s_->connection->read->handler = ngx_stream_session_handler;
    ngx_stream_core_run_phases(s_);
}

} // namespace nginx_module::stream
