#include "request.hpp"

#include "fallback.hpp"
#include "timer.hpp"
#include "util.hpp"

#include <poll.h>

#include <algorithm>
#include <type_traits>
#include <utility>

namespace nginx_module {

namespace {

/// Among the pool's cleanups it marks the state.
void end_of_request(void *state) noexcept {
    static_cast<RequestState *>(state)->end();
}
static_assert(std::is_trivially_destructible_v<RequestState>);

/// Stands for a suspended request's write handler: a stray event does not run its phases, and where
/// another handler stands there, the request is no longer the one that was suspended. One event
/// tells something: a client that cancels a stream of HTTP/3 says that it reads no more of it,
/// which ngx_http_test_reading does not see.
void stay_suspended(ngx_http_request_t *r) noexcept {
    if (r->connection->write->error && !r->post_action) { // that one runs without a client
        ngx_log_error(NGX_LOG_INFO, r->connection->log, 0, "client cancelled the request");
        ngx_http_finalize_request(r, NGX_HTTP_CLIENT_CLOSED_REQUEST);
    }
}

/// True if the connection takes no answer any more: it was reset, or its other end is closed, which
/// shows so only where both are on this host. A client that has ended its sending side (FIN) can
/// still read. The system is asked by poll(), for that works with each event method of nginx, and
/// takes no error away that nginx is still to read.
bool is_dead(const ngx_connection_t &connection) {
    pollfd socket{.fd = connection.fd, .events = 0, .revents = 0};
    return poll(&socket, 1, 0) == 1 && (socket.revents & (POLLERR | POLLHUP)) != 0;
}

/// HTTP/2 and HTTP/3: the request is a stream of a connection that others share, and the end of
/// what the client sends is no event of the stream.
bool is_stream(const ngx_http_request_t &r) {
    return r.http_version >= NGX_HTTP_VERSION_20;
}

/// Reads the events of a request that waits for a verdict.
void watch_for_reset(ngx_http_request_t *r) noexcept {
    if (is_stream(*r)) {
        ngx_http_test_reading(r);
        return;
    }
    ngx_connection_t *connection = r->connection;
    if (is_dead(*connection)) {
        connection->read->eof = connection->read->error = connection->error = 1;
        ngx_log_error(NGX_LOG_INFO, connection->log, 0, "client prematurely closed connection");
        ngx_http_finalize_request(r, NGX_HTTP_CLIENT_CLOSED_REQUEST);
        return;
    }
    if (RequestState *state = RequestState::find(r)) {
        state->keep_read_event();
    }
    ngx_http_block_reading(r);
}

RequestState *find_in_pool(ngx_http_request_t *r) {
    for (const auto *cleanup = r->pool->cleanup; cleanup != nullptr; cleanup = cleanup->next) {
        if (cleanup->handler == end_of_request) {
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
        state = pool_new<RequestState>(r->pool, end_of_request, r);
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

ngx_int_t RequestState::ask(Question *questions, std::span<Applied> rules,
                            std::chrono::microseconds now) {
    questions_ = questions;
    asked_ = rules;
    first_asked_ = now;
    return wait_for(questions, now);
}

ngx_int_t RequestState::ask_again(Question *questions, std::chrono::microseconds now,
                                  std::chrono::milliseconds time) {
    Question **place = &questions_;
    while (Question *question = *place) {
        if (std::ranges::any_of(question->rules(), &Applied::rejects)) {
            *place = question->next;
        } else {
            place = &question->next;
        }
    }
    *place = questions;
    const ngx_int_t result = wait_for(questions, now);
    if (result == NGX_AGAIN) {
        start_timer(resume_, time);
    }
    return result;
}

/// As ask().
ngx_int_t RequestState::wait_for(Question *questions, std::chrono::microseconds now) {
    times_.asked = times_.answered = now;
    for (Question *question = questions; question != nullptr; question = question->next) {
        unanswered_ += question->ask() ? 1 : 0;
    }
    if (unanswered_ == 0) {
        return NGX_OK;
    }
    if (!suspend(watch_for_reset)) {
        forget();
        return NGX_ERROR;
    }
    stage_ = Stage::asking;
    return NGX_AGAIN;
}

/// In a turn of its own: a request that goes on here and now could end, and with it others, while
/// the session still reads its replies.
void RequestState::on_answer(std::chrono::microseconds now) {
    if (--unanswered_ == 0) {
        end_asking(now);
        stop_timer(resume_);
        ngx_post_event(&resume_, &ngx_posted_events);
    }
}

void RequestState::end_asking(std::chrono::microseconds now) {
    times_.answered = now;
    time_asking_ += times_.answered - times_.asked;
}

ngx_int_t RequestState::delay(std::chrono::microseconds time) {
    if (!suspend(ngx_http_test_reading)) { // as limit_req does
        return NGX_ERROR;
    }
    was_delayed_ = true;
    stage_ = Stage::delaying;
    start_timer(resume_, std::chrono::ceil<std::chrono::milliseconds>(time));
    return NGX_AGAIN;
}

void RequestState::settle() {
    stage_ = Stage::idle;
    while (Question *question = questions_) {
        questions_ = question->next;
        question->next = std::exchange(settled_questions_, question);
    }
}

/// From here to resume() the request only waits, and `watch` handles the events of its client's
/// connection. Returns false if memory ran out.
bool RequestState::suspend(ngx_http_event_handler_pt watch) {
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
        if (!look_at_client(watch)) {
            return false;
        }
        r_->read_event_handler = watch;
    }
    r_->write_event_handler = stay_suspended;
    return true;
}

/// Posts the event of what came before `watch` was there, as nothing will tell of it again, or
/// makes sure that there will be one. Only a reset matters to watch_for_reset(): the event of
/// anything else is not posted, for nginx would not have had it either.
bool RequestState::look_at_client(ngx_http_event_handler_pt watch) {
    ngx_event_t *read = r_->connection->read;
    if (!read->ready) {
        return ngx_handle_read_event(read, 0) == NGX_OK;
    }
    if (watch != watch_for_reset || is_stream(*r_) || is_dead(*r_->connection)) {
        ngx_post_event(read, &ngx_posted_events);
    }
    return true;
}

void RequestState::resume() {
    if (r_->write_event_handler != stay_suspended) {
        forget();
        return;
    }
    if (unanswered_ > 0) {
        for (Question *question = questions_; question != nullptr; question = question->next) {
            question->read_now();
        }
        if (unanswered_ == 0) {
            return; // on_answer() has posted this once more
        }
        give_up_questions();
        end_asking(precise_now());
    }
    stage_ = stage_ == Stage::asking ? Stage::answered : Stage::delayed;
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

void RequestState::give_up_questions() {
    for (Question *question = questions_; question != nullptr; question = question->next) {
        question->give_up();
    }
    unanswered_ = 0;
}

void RequestState::forget() {
    for (Question *question = questions_; question != nullptr; question = question->next) {
        question->abandon();
    }
    unanswered_ = 0;
    settle();
    if (resume_.posted) {
        ngx_delete_posted_event(&resume_);
    }
    stop_timer(resume_);
}

void RequestState::end() {
    forget();
    for (Question *question = settled_questions_; question != nullptr; question = question->next) {
        question->release_slots();
    }
    release_slots_of_this_host(applied_);
}

void RequestState::add(Applied &applied) {
    if (applied.is_left_out()) {
        applied.next = std::exchange(left_out_, &applied);
        return;
    }
    supersede(applied);
    *next_applied_ = &applied;
    next_applied_ = &applied.next;
}

/// Of rules that share a name and a counter a client sees one.
void RequestState::supersede(const Applied &by) {
    if (by.verdict() == nullptr) {
        return;
    }
    for (Applied *one = applied_; one != nullptr; one = one->next) {
        if (one->rule->rule.same_counter(by.rule->rule) && by.is_enforced_where(one->dry_run)) {
            one->is_superseded = true;
        }
    }
}

const Applied *RequestState::tightest() const {
    const Applied *found = nullptr;
    for (const Applied *one = applied_; one != nullptr; one = one->next) {
        if (one->verdict() == nullptr || one->is_superseded) {
            continue;
        }
        const bool is_tighter =
            found == nullptr || (one->dry_run == found->dry_run && one->is_tighter(*found));
        if (is_tighter || (found->dry_run && !one->dry_run)) {
            found = one;
        }
    }
    return found;
}

/// Of those that were applied, and those that were asked and forgotten, for they may be charged all
/// the same.
template <typename Predicate>
bool RequestState::any_applied(Predicate is_such) const {
    for (const Applied *one = applied_; one != nullptr; one = one->next) {
        if (is_such(*one)) {
            return true;
        }
    }
    return std::ranges::any_of(asked_, is_such);
}

bool RequestState::has_applied(const RuleConf &rule, bool is_dry_run) const {
    return any_applied(
        [&](const Applied &one) { return one.rule == &rule && one.is_enforced_where(is_dry_run); });
}

bool RequestState::has_covered(const Candidate &candidate) const {
    return any_applied([&](const Applied &one) {
        return one.covers(candidate.rule->rule, candidate.quota, candidate.dry_run);
    });
}

uint64_t RequestState::charged_to(const ZoneConf &zone, std::string_view redis_key) const {
    uint64_t charged = 0;
    for (const Applied *one = applied_; one != nullptr; one = one->next) {
        if (one->rule->zone == &zone && one->charge->redis_key == redis_key) {
            charged += one->charged();
        }
    }
    return charged;
}

const Applied *RequestState::last_charge(const RuleConf &rule, std::string_view key) const {
    const Applied *last = nullptr;
    for (const Applied *one = applied_; one != nullptr; one = one->next) {
        if (one->rule->rule.same_counter(rule.rule) && one->key == key && one->charged() > 0) {
            last = one;
        }
    }
    return last;
}

bool RequestState::has_left_out(const RuleConf &rule) const {
    for (const Applied *one = left_out_; one != nullptr; one = one->next) {
        if (one->rule->rule.same_counter(rule.rule)) {
            return true;
        }
    }
    return false;
}

} // namespace nginx_module
