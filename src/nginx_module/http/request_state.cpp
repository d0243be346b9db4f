#include "nginx_module/http/request_state.hpp"

#include "nginx_module/client.hpp"
#include "nginx_module/conf/compiled_text.hpp"
#include "nginx_module/decisions/log_lines.hpp"
#include "nginx_module/http/configuration.hpp"
#include "nginx_module/http/http_worker.hpp"
#include "nginx_module/http/request_context.hpp"
#include "nginx_module/util.hpp"

#include <type_traits>

namespace nginx_module {

namespace {

/// Handles the end of the pool.
void end_of_request(void *state) noexcept {
    static_cast<RequestState *>(state)->end();
}
static_assert(std::is_trivially_destructible_v<RequestState>);

constexpr auto evaluate =
    evaluate_text<ngx_http_complex_value_t, ngx_http_complex_value, ngx_http_request_t>;

} // namespace

RequestState *RequestState::find(ngx_http_request_t *r) {
    return find_context<RequestState>(r, ngx_http_redis_rate_limit_module, end_of_request);
}

RequestState *RequestState::create(ngx_http_request_t *r) {
    auto *state = pool_new<RequestState>(r->pool, end_of_request, r);
    if (state == nullptr) {
        return nullptr;
    }
    state->limits_ = limiter::LimitedRequest::create(http_worker->limiter(), *state);
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
    return evaluate(suspension_.request(), static_cast<const RuleConf &>(rule).text(which));
}

std::string_view RequestState::address() {
    return address_of(*suspension_.request()->connection);
}

void RequestState::report(const limiter::InvalidNumber &invalid) {
    log_invalid(*suspension_.request()->connection->log, invalid);
}

void RequestState::report_dry_run(const limiter::AppliedRule &rule) {
    ngx_http_request_t *r = suspension_.request();
    log_dry_run(*r->connection->log, location_conf(r).log_level, rule);
}

void RequestState::report(limiter::RequestEvent event, int64_t number) {
    log_event(*suspension_.request()->connection->log, NGX_LOG_DEBUG_HTTP, event, number);
}

} // namespace nginx_module
