#include "nginx_module/http/request_state.hpp"

#include "nginx_module/http/abandoned_check.hpp"
#include "nginx_module/http/fallback.hpp"
#include "nginx_module/http/rule_outcomes.hpp"
#include "nginx_module/http/settlement.hpp"
#include "nginx_module/util.hpp"

#include <type_traits>
#include <utility>

namespace nginx_module {

namespace {

/// Handles the end of the pool. find_in_pool() finds the state by this handler.
void end_of_request(void *state) noexcept {
    static_cast<RequestState *>(state)->end();
}
static_assert(std::is_trivially_destructible_v<RequestState>);

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

RequestState *RequestState::create(ngx_http_request_t *r) {
    auto *state = pool_new<RequestState>(r->pool, end_of_request, r);
    ngx_http_set_ctx(r, state, ngx_http_redis_rate_limit_module);
    return state;
}

ngx_int_t RequestState::ask(BackendCheck *checks, std::span<AppliedRule> rules,
                            std::chrono::microseconds now) {
    checks_ = checks;
    rules_.set_asked(rules);
    check_times_.asked = check_times_.answered = now;
    for (BackendCheck *check = checks; check != nullptr; check = check->next) {
        unanswered_ += check->ask() ? 1 : 0;
    }
    if (unanswered_ == 0) {
        return NGX_OK;
    }
    if (!suspension_.begin(Suspension::Watch::for_reset)) {
        abandon();
        return NGX_ERROR;
    }
    stage_ = Stage::asking;
    return NGX_AGAIN;
}

void RequestState::on_answer(std::chrono::microseconds now) {
    if (--unanswered_ == 0) {
        check_times_.answered = now;
        time_asking_ += check_times_.answered - check_times_.asked;
        suspension_.end_soon();
    }
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

void RequestState::set_idle() {
    stage_ = Stage::idle;
    while (BackendCheck *check = checks_) {
        checks_ = check->next;
        check->next = std::exchange(earlier_checks_, check);
    }
}

void RequestState::abandon() {
    if (checks_ != nullptr) {
        abandon_leased(rules_.asked());
    }
    for (BackendCheck *check = checks_; check != nullptr; check = check->next) {
        check->abandon();
    }
    unanswered_ = 0;
    set_idle();
    suspension_.cancel();
}

void RequestState::settle() {
    if (!is_rejected_) {
        settle_charges();
    }
    for (AppliedRule *applied = rules_.first(); applied != nullptr; applied = applied->next) {
        if (applied->lease.taken && applied->rule->may_settle) {
            count_used_units(*applied);
        }
    }
}

void RequestState::settle_charges() {
    for (AppliedRule *applied = rules_.first(); applied != nullptr; applied = applied->next) {
        if (applied->is_charged) {
            read_final_cost(suspension_.request(), *applied);
        }
    }
    nginx_module::settle(rules_.first());
    for (BackendCheck *check = earlier_checks_; check != nullptr; check = check->next) {
        check->settle_abandoned(suspension_.request());
    }
}

void RequestState::end() {
    abandon();
    for (BackendCheck *check = earlier_checks_; check != nullptr; check = check->next) {
        check->forget_heir();
        check->release_permits();
    }
    release_permits_of_this_host(rules_.first());
}

} // namespace nginx_module
