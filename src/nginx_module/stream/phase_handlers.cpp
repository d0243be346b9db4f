#include "nginx_module/stream/phase_handlers.hpp"

#include "nginx_module/decisions/log_lines.hpp"
#include "nginx_module/stream/configuration.hpp"
#include "nginx_module/stream/session_state.hpp"

namespace nginx_module::stream {

namespace {

using limiter::Step;
using rate_limit::Phase;

/// Applies what is left of the server's rules of the phases up to `last`, and goes on where the
/// session was suspended.
Step next_step(SessionState &state, const limiter::Level &level, Phase last) {
    const bool is_answered = state.stage() == SessionState::Stage::answered;
    state.set_idle();
    Step step = is_answered ? state.limits().take_answers() : Step{};
    for (const Phase phase : rate_limit::all_phases) {
        if (step.kind == Step::Kind::pass && phase <= last) {
            step = state.limits().apply(level, phase);
        }
    }
    return step;
}

/// Returns NGX_DECLINED for a session that passes, NGX_AGAIN for one that is suspended, and else
/// the status with which it ends.
ngx_int_t carry_out(ngx_stream_session_t *s, SessionState &state, const Step &step) {
    ngx_log_t &log = *s->connection->log;
    const ngx_uint_t log_level = server_conf(s).log_level;
    switch (step.kind) {
    case Step::Kind::pass:
        return NGX_DECLINED;
    case Step::Kind::wait:
        return state.wait_for_answers() ? NGX_AGAIN : NGX_STREAM_INTERNAL_SERVER_ERROR;
    case Step::Kind::hold_back:
        log_delay(log, log_level, *step.decision.delaying);
        return state.delay(step.decision.delaying->delay()) ? NGX_AGAIN
                                                            : NGX_STREAM_INTERNAL_SERVER_ERROR;
    case Step::Kind::reject:
        if (step.decision.denying != nullptr) {
            log_rejection(log, log_level, *step.decision.denying);
        }
        return NGX_STREAM_SERVICE_UNAVAILABLE;
    case Step::Kind::no_memory:
        break;
    }
    return NGX_STREAM_INTERNAL_SERVER_ERROR;
}

ngx_int_t handle(ngx_stream_session_t *s, Phase last) {
    const ServerConf &server = server_conf(s);
    if (!server.has_rules()) {
        return NGX_DECLINED;
    }
    SessionState *state = SessionState::find(s);
    if (state == nullptr) {
        state = SessionState::create(s);
    }
    if (state == nullptr) {
        return NGX_STREAM_INTERNAL_SERVER_ERROR;
    }
    if (state->is_suspended()) {
        return NGX_AGAIN; // another module has run the phases before the suspension ended
    }
    return carry_out(s, *state, next_step(*state, server.level(), last));
}

} // namespace

ngx_int_t access_handler(ngx_stream_session_t *s) noexcept {
    return handle(s, Phase::access);
}

void content_handler(ngx_stream_session_t *s) noexcept {
    const ngx_int_t result = handle(s, Phase::late);
    if (result == NGX_DECLINED) {
        server_conf(s).content(s);
    } else if (result != NGX_AGAIN) {
        ngx_stream_finalize_session(s, static_cast<ngx_uint_t>(result));
    }
}

ngx_int_t log_handler(ngx_stream_session_t *s) noexcept {
    if (SessionState *state = SessionState::find(s)) {
        state->settle();
    }
    return NGX_OK;
}

} // namespace nginx_module::stream
