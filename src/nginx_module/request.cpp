#include "request.hpp"

#include "backend.hpp"
#include "util.hpp"

#include <new>
#include <type_traits>

namespace nginx_module {

namespace {

/// Marks the state among the pool's cleanups; there is nothing to clean.
void state_marker(void * /*state*/) noexcept {}
static_assert(std::is_trivially_destructible_v<RequestState>);

/// Stands for a suspended request's write handler: a stray event does not run its phases, and where
/// another handler stands there, the request is no longer the one that was suspended.
void stay_suspended(ngx_http_request_t * /*r*/) noexcept {}

RequestState *find_in_pool(ngx_http_request_t *r) {
    for (const auto *cleanup = r->pool->cleanup; cleanup != nullptr; cleanup = cleanup->next) {
        if (cleanup->handler == state_marker) {
            return static_cast<RequestState *>(cleanup->data);
        }
    }
    return nullptr;
}

} // namespace

RequestState *RequestState::find(ngx_http_request_t *r) {
    auto *state =
        static_cast<RequestState *>(ngx_http_get_module_ctx(r, ngx_http_redis_rate_limit_module));
    if (state == nullptr && (r->internal || r->filter_finalize)) {
        state = find_in_pool(r);
        ngx_http_set_ctx(r, state, ngx_http_redis_rate_limit_module);
    }
    return state;
}

RequestState *RequestState::find_or_create(ngx_http_request_t *r) {
    RequestState *state = find(r);
    if (state == nullptr) {
        state = pool_new<RequestState>(r->pool, state_marker, r);
        ngx_http_set_ctx(r, state, ngx_http_redis_rate_limit_module);
    }
    return state;
}

RequestState::RequestState(ngx_http_request_t *r) : r_(r) {
    resume_.data = this;
    resume_.log = r->connection->log;
    resume_.handler = [](ngx_event_t *event) noexcept {
        static_cast<RequestState *>(event->data)->resume();
    };
}

std::optional<redis_client::Failure> RequestState::ask(const RuleConf &rule, std::string_view key) {
    question_ = {.rule = &rule, .key = key};
    backend_ = &backend_of(*rule.zone->backend);
    const auto asked = backend_->ask(*rule.prepared, key, *this);
    if (const auto *failure = std::get_if<redis_client::Failure>(&asked)) {
        return *failure;
    }
    check_ = std::get<redis_client::Check *>(asked);
    if (!suspend()) {
        forget();
        return redis_client::Failure::overload;
    }
    return std::nullopt;
}

std::optional<redis_client::CheckResult> RequestState::take_answer() {
    return resume_.posted ? std::nullopt : std::exchange(answer_, std::nullopt);
}

bool RequestState::add(const RuleConf &rule, const std::optional<rate_limit::Verdict> &verdict) {
    void *memory = ngx_palloc(r_->pool, sizeof(Applied));
    if (memory == nullptr) {
        return false;
    }
    applied_ = new (memory) Applied{.rule = &rule, .verdict = verdict, .next = applied_};
    return true;
}

bool RequestState::has_applied(const RuleConf &rule) const {
    for (const Applied *one = applied_; one != nullptr; one = one->next) {
        if (one->rule == &rule || one->rule->rule.same_counter(rule.rule)) {
            return true;
        }
    }
    return false;
}

void RequestState::on_result(const redis_client::CheckResult &result) {
    check_ = nullptr;
    answer_ = result;
    // In a turn of its own: a request that goes on here and now could end, and with it others,
    // while the session still reads its replies.
    ngx_post_event(&resume_, &ngx_posted_events);
}

/// From here to resume() the request only waits, and nginx notices a client that leaves, as in
/// limit_req. False without memory.
bool RequestState::suspend() {
    if (!cleans_up_) {
        ngx_http_cleanup_t *cleanup = ngx_http_cleanup_add(r_, 0);
        if (cleanup == nullptr) {
            return false;
        }
        cleanup->handler = [](void *state) noexcept {
            static_cast<RequestState *>(state)->forget();
        };
        cleanup->data = this;
        cleans_up_ = true;
    }
    if (!r_->post_action) { // which runs though its client may have left
        ngx_event_t *read = r_->connection->read;
        if (read->ready) {
            ngx_post_event(read, &ngx_posted_events);
        } else if (ngx_handle_read_event(read, 0) != NGX_OK) {
            return false;
        }
        r_->read_event_handler = ngx_http_test_reading;
    }
    r_->write_event_handler = stay_suspended;
    return true;
}

void RequestState::resume() {
    if (r_->write_event_handler != stay_suspended) {
        forget();
        return;
    }
    ngx_connection_t *connection = r_->connection;
    ngx_http_set_log_request(connection->log, r_);
    r_->read_event_handler = ngx_http_block_reading;
    r_->write_event_handler = ngx_http_core_run_phases;
    ngx_http_core_run_phases(r_);
    ngx_http_run_posted_requests(connection);
}

void RequestState::forget() {
    answer_.reset();
    if (check_ != nullptr) {
        backend_->abandon(*check_);
        check_ = nullptr;
    }
    if (resume_.posted) {
        ngx_delete_posted_event(&resume_);
    }
}

} // namespace nginx_module
