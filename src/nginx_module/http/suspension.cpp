#include "nginx_module/http/suspension.hpp"

#include "nginx_module/client.hpp"

#include <utility>

namespace nginx_module {

namespace {

/// The write handler of a suspended request, so that a stray event does not run its phases. If the
/// request has another handler, nginx has led it elsewhere since then. One event matters here: a
/// client cancels a stream of HTTP/3 and reads no more of it. ngx_http_test_reading misses that.
void stay_suspended(ngx_http_request_t *r) noexcept {
    if (r->connection->write->error && !r->post_action) { // a post_action runs without a client
        ngx_log_error(NGX_LOG_INFO, r->connection->log, 0, "client cancelled the request");
        ngx_http_finalize_request(r, NGX_HTTP_CLIENT_CLOSED_REQUEST);
    }
}

/// Whether the request is a stream of HTTP/2 or HTTP/3. It shares its connection with others, and
/// the end of what the client sends is no event of the stream.
bool is_stream(const ngx_http_request_t &r) {
    return r.http_version >= NGX_HTTP_VERSION_20;
}

} // namespace

Suspension::Suspension(ngx_http_request_t *r, Callbacks &callbacks) : r_(r), callbacks_(callbacks) {
    resume_.set_up<&Suspension::resume>(*this, r->connection->log);
}

/// Handles the end of the request. find() knows the suspension by this handler.
void Suspension::leave(void *self) noexcept {
    static_cast<Suspension *>(self)->callbacks_.on_leave();
}

Suspension *Suspension::find(ngx_http_request_t *r) {
    for (const auto *cleanup = r->main->cleanup; cleanup != nullptr; cleanup = cleanup->next) {
        if (cleanup->handler == leave) {
            return static_cast<Suspension *>(cleanup->data);
        }
    }
    return nullptr;
}

bool Suspension::begin(Watch watch) {
    if (!cleans_up_) {
        ngx_http_cleanup_t *cleanup = ngx_http_cleanup_add(r_, 0);
        if (cleanup == nullptr) {
            return false;
        }
        cleanup->handler = leave;
        cleanup->data = this;
        cleans_up_ = true;
    }
    if (!r_->post_action) { // a post_action runs even if its client has left
        if (!look_at_client(watch)) {
            return false;
        }
        r_->read_event_handler =
            watch == Watch::for_reset ? watch_for_reset : ngx_http_test_reading;
    }
    r_->write_event_handler = stay_suspended;
    ngx_log_debug0(NGX_LOG_DEBUG_HTTP, r_->connection->log, 0, "redis_rate_limit waits");
    return true;
}

/// Makes sure that a read event comes if the client leaves. If something has come before the
/// request was suspended, its event is posted here, because it is not reported again. But
/// watch_for_reset() needs only a reset: no event is posted for anything else, because without the
/// suspension nginx would not have had it either. Returns false if nginx could not watch the
/// connection.
bool Suspension::look_at_client(Watch watch) {
    ngx_event_t *read = r_->connection->read;
    if (!read->ready) {
        return ngx_handle_read_event(read, 0) == NGX_OK;
    }
    if (watch == Watch::for_end || is_stream(*r_) ||
        client_end(*r_->connection) != ClientEnd::open) {
        ngx_post_event(read, &ngx_posted_events);
    }
    return true;
}

/// Handles the read events of a request that waits for a verdict.
void Suspension::watch_for_reset(ngx_http_request_t *r) noexcept {
    if (is_stream(*r)) {
        ngx_http_test_reading(r);
        return;
    }
    ngx_connection_t *connection = r->connection;
    if (client_end(*connection) != ClientEnd::open) {
        connection->read->eof = connection->read->error = connection->error = 1;
        ngx_log_error(NGX_LOG_INFO, connection->log, 0, "client prematurely closed connection");
        ngx_http_finalize_request(r, NGX_HTTP_CLIENT_CLOSED_REQUEST);
        return;
    }
    if (Suspension *suspension = find(r)) {
        suspension->has_read_event_ = true;
    }
    ngx_http_block_reading(r);
}

void Suspension::resume() {
    if (r_->write_event_handler != stay_suspended) {
        ngx_log_debug0(NGX_LOG_DEBUG_HTTP, r_->connection->log, 0,
                       "redis_rate_limit finds its request elsewhere");
        callbacks_.on_leave();
        return;
    }
    callbacks_.on_resume();
    ngx_connection_t *connection = r_->connection;
    ngx_http_set_log_request(connection->log, r_);
    r_->read_event_handler = ngx_http_block_reading;
    r_->write_event_handler = ngx_http_core_run_phases;
    if (std::exchange(has_read_event_, false)) {
        ngx_post_event(connection->read, &ngx_posted_events);
    }
    ngx_http_core_run_phases(r_);
    ngx_http_run_posted_requests(connection);
}

} // namespace nginx_module
