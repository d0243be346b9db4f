#include "nginx_module/http/request_state.hpp"

#include "nginx_module/conf/configuration.hpp"
#include "nginx_module/http/log_lines.hpp"
#include "nginx_module/util.hpp"
#include "nginx_module/worker/worker.hpp"

#include <type_traits>

namespace nginx_module {

namespace {

/// Handles the end of the pool.
void end_of_request(void *state) noexcept {
    static_cast<RequestState *>(state)->end();
}
static_assert(std::is_trivially_destructible_v<RequestState>);

/// Returns nothing if memory ran out.
std::optional<std::string_view> evaluate(ngx_http_request_t *r,
                                         const ngx_http_complex_value_t &value) {
    ngx_str_t text;
    if (ngx_http_complex_value(r, const_cast<ngx_http_complex_value_t *>(&value), &text) !=
        NGX_OK) {
        return std::nullopt;
    }
    return view(text);
}

} // namespace

RequestState *RequestState::find(ngx_http_request_t *r) {
    auto *state =
        static_cast<RequestState *>(ngx_http_get_module_ctx(r, ngx_http_redis_rate_limit_module));
    if (state == nullptr && (r->internal || r->filter_finalize)) {
        state = find_in_pool<RequestState>(r->pool, end_of_request);
        ngx_http_set_ctx(r, state, ngx_http_redis_rate_limit_module);
    }
    return state;
}

RequestState *RequestState::create(ngx_http_request_t *r) {
    auto *state = pool_new<RequestState>(r->pool, end_of_request, r);
    if (state == nullptr) {
        return nullptr;
    }
    state->limits_ = limiter::LimitedRequest::create(this_worker(), *state);
    if (state->limits_ == nullptr) {
        r->pool->cleanup->handler = nullptr; // the state is of no use
        return nullptr;
    }
    ngx_http_set_ctx(r, state, ngx_http_redis_rate_limit_module);
    return state;
}

bool RequestState::wait_for_answers() {
    if (!suspension_.begin(Suspension::Watch::for_reset)) {
        abandon();
        return false;
    }
    stage_ = Stage::asking;
    return true;
}

bool RequestState::delay(std::chrono::microseconds time) {
    if (!suspension_.begin(Suspension::Watch::for_end)) {
        return false;
    }
    was_delayed_ = true;
    stage_ = Stage::delaying;
    suspension_.end_after(time);
    return true;
}

void RequestState::on_resume() {
    stage_ = stage_ == Stage::asking ? Stage::answered : Stage::delayed;
}

void RequestState::abandon() {
    limits_->abandon();
    set_idle();
    suspension_.cancel();
}

void RequestState::end() {
    suspension_.cancel();
    limits_->end();
}

std::optional<std::string_view> RequestState::key(const limiter::Zone &zone) {
    return evaluate(suspension_.request(), static_cast<const ZoneConf &>(zone).key);
}

std::optional<std::string_view> RequestState::text(const limiter::Rule &rule,
                                                   limiter::RuleText which) {
    return evaluate(suspension_.request(), *static_cast<const RuleConf &>(rule).text(which));
}

void RequestState::report(const limiter::InvalidNumber &invalid) {
    log_invalid(suspension_.request(), invalid);
}

void RequestState::report_dry_run(const limiter::AppliedRule &rule) {
    log_dry_run(suspension_.request(), rule);
}

void RequestState::report(limiter::RequestEvent event, int64_t number, int64_t second_number) {
    [[maybe_unused]] ngx_log_t *log = suspension_.request()->connection->log;
    switch (event) {
    case limiter::RequestEvent::applies_rules:
        ngx_log_debug2(NGX_LOG_DEBUG_HTTP, log, 0,
                       "redis_rate_limit applies %L rules, asks Redis for %L", number,
                       second_number);
        break;
    case limiter::RequestEvent::knows_denials:
        ngx_log_debug1(NGX_LOG_DEBUG_HTTP, log, 0, "redis_rate_limit knows denials of %L rules",
                       number);
        break;
    case limiter::RequestEvent::takes_leased:
        ngx_log_debug0(NGX_LOG_DEBUG_HTTP, log, 0, "redis_rate_limit takes units of leases");
        break;
    case limiter::RequestEvent::has_answers:
        ngx_log_debug1(NGX_LOG_DEBUG_HTTP, log, 0, "redis_rate_limit has its answers after %L us",
                       number);
        break;
    case limiter::RequestEvent::passes:
        ngx_log_debug0(NGX_LOG_DEBUG_HTTP, log, 0, "redis_rate_limit passes");
        break;
    }
}

} // namespace nginx_module
