// Carries out what the limiter decides: see limiter/limited_request.hpp for the road of a request.
#include "nginx_module/http/phase_handlers.hpp"

#include "nginx_module/decisions/log_lines.hpp"
#include "nginx_module/http/configuration.hpp"
#include "nginx_module/http/problem_response.hpp"
#include "nginx_module/http/request_state.hpp"

namespace nginx_module {

namespace {

using limiter::RequestDecision;
using limiter::Step;

/// Ends the request here. The status is not returned to the phase engine, which under `satisfy any`
/// would take a 401 or 403 for the opinion of one module among others.
ngx_int_t reject(ngx_http_request_t *r, const RequestState &state,
                 const RequestDecision &decision) {
    ngx_int_t result = NGX_HTTP_SERVICE_UNAVAILABLE;
    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "redis_rate_limit rejects, by a verdict: %d", decision.denying != nullptr);
    if (decision.denying != nullptr) {
        const LocationConf &location = location_conf(r);
        log_rejection(*r->connection->log, location.log_level, *decision.denying);
        const ngx_uint_t status = location.status;
        result = is_answered_by_problem(r, status) ? send_problem(r, status, state.rules())
                                                   : static_cast<ngx_int_t>(status);
    }
    ngx_http_finalize_request(r, result);
    return NGX_DONE;
}

/// Returns NGX_DECLINED for a request that passes, because NGX_OK would grant access under `satisfy
/// any`.
ngx_int_t carry_out(ngx_http_request_t *r, RequestState &state, const Step &step) {
    switch (step.kind) {
    case Step::Kind::pass:
        return NGX_DECLINED;
    case Step::Kind::wait:
        return state.wait_for_answers() ? NGX_AGAIN : NGX_HTTP_INTERNAL_SERVER_ERROR;
    case Step::Kind::hold_back:
        ngx_log_debug0(NGX_LOG_DEBUG_HTTP, r->connection->log, 0, "redis_rate_limit delays");
        log_delay(*r->connection->log, location_conf(r).log_level, *step.decision.delaying);
        return state.delay(step.decision.delaying->delay()) ? NGX_AGAIN
                                                            : NGX_HTTP_INTERNAL_SERVER_ERROR;
    case Step::Kind::reject:
        return reject(r, state, step.decision);
    case Step::Kind::no_memory:
        break;
    }
    return NGX_HTTP_INTERNAL_SERVER_ERROR;
}

/// nginx calls this when the request comes to the phase, and again after it was suspended there.
ngx_int_t handle(ngx_http_request_t *r, Phase phase) {
    const LocationConf &location = location_conf(r);
    if (r != r->main || !location.has_rules()) {
        return NGX_DECLINED;
    }
    RequestState *state = RequestState::find(r);
    if (state == nullptr) {
        state = RequestState::create(r);
    }
    if (state == nullptr) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    switch (state->stage()) {
    case RequestState::Stage::answered:
        state->set_idle();
        return carry_out(r, *state, state->limits().take_answers());
    case RequestState::Stage::delayed:
        ngx_log_debug0(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                       "redis_rate_limit ends the delay");
        state->set_idle();
        return NGX_DECLINED;
    case RequestState::Stage::asking:
    case RequestState::Stage::delaying:
        state->abandon(); // nginx has led the request elsewhere, perhaps to a post_action
        break;
    case RequestState::Stage::idle:
        break;
    }
    if (state->limits().is_rejected()) {
        return NGX_DECLINED;
    }
    return carry_out(r, *state, state->limits().apply(location.level(), phase));
}

} // namespace

ngx_int_t access_handler(ngx_http_request_t *r) noexcept {
    return handle(r, Phase::access);
}

ngx_int_t precontent_handler(ngx_http_request_t *r) noexcept {
    return handle(r, Phase::late);
}

ngx_int_t log_handler(ngx_http_request_t *r) noexcept {
    if (r == r->main) {
        if (RequestState *state = RequestState::find(r)) {
            state->limits().settle();
        }
    }
    return NGX_OK;
}

} // namespace nginx_module
