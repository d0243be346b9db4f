#include "nginx_module/stream/session_state.hpp"

#include "nginx_module/client.hpp"
#include "nginx_module/conf/compiled_text.hpp"
#include "nginx_module/decisions/log_lines.hpp"
#include "nginx_module/stream/configuration.hpp"
#include "nginx_module/stream/stream_worker.hpp"
#include "nginx_module/util.hpp"

#include <type_traits>

namespace nginx_module::stream {

namespace {

void end_of_session(void *state) noexcept {
    static_cast<SessionState *>(state)->end();
}
static_assert(std::is_trivially_destructible_v<SessionState>);

constexpr auto evaluate =
    evaluate_text<ngx_stream_complex_value_t, ngx_stream_complex_value, ngx_stream_session_t>;

} // namespace

SessionState *SessionState::find(ngx_stream_session_t *s) {
    return static_cast<SessionState *>(
        ngx_stream_get_module_ctx(s, ngx_stream_redis_rate_limit_module));
}

SessionState *SessionState::create(ngx_stream_session_t *s) {
    ngx_pool_t *pool = s->connection->pool;
    auto *state = pool_new<SessionState>(pool, end_of_session, s);
    if (state == nullptr) {
        return nullptr;
    }
    state->limits_ = limiter::LimitedRequest::create(worker->limiter(), *state);
    if (state->limits_ == nullptr) {
        pool->cleanup->handler = nullptr; // the state is of no use
        return nullptr;
    }
    ngx_stream_set_ctx(s, state, ngx_stream_redis_rate_limit_module);
    return state;
}

bool SessionState::wait_for_answers() {
    stage_ = Stage::asking;
    return suspension_.begin();
}

bool SessionState::delay(std::chrono::microseconds time) {
    was_delayed_ = true;
    stage_ = Stage::delaying;
    suspension_.end_after(time);
    return suspension_.begin();
}

void SessionState::on_resume() {
    stage_ = stage_ == Stage::asking ? Stage::answered : Stage::idle;
}

void SessionState::stop_waiting() {
    limits_->abandon();
    set_idle();
    suspension_.cancel();
}

void SessionState::settle() {
    stop_waiting();
    limits_->settle();
}

void SessionState::end() {
    suspension_.cancel();
    limits_->end();
}

std::optional<std::string_view> SessionState::key(const limiter::Zone &zone) {
    return evaluate(suspension_.session(), static_cast<const ZoneConf &>(zone).key);
}

std::optional<std::string_view> SessionState::text(const limiter::Rule &rule,
                                                   limiter::RuleText which) {
    return evaluate(suspension_.session(), static_cast<const RuleConf &>(rule).text(which));
}

std::string_view SessionState::address() {
    return address_of(*suspension_.session()->connection);
}

void SessionState::report(const limiter::InvalidNumber &invalid) {
    log_invalid(log(), invalid);
}

void SessionState::report_dry_run(const limiter::AppliedRule &rule) {
    log_dry_run(log(), server_conf(suspension_.session()).log_level, rule);
}

void SessionState::report(limiter::RequestEvent event, int64_t number) {
    log_event(log(), NGX_LOG_DEBUG_STREAM, event, number);
}

} // namespace nginx_module::stream
