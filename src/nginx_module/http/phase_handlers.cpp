// The road of a request through its rules, from the top down: find the rules that apply → decide
// those that this host decides alone → ask Redis for the others → take its answers → carry the
// decision out.
#include "nginx_module/http/phase_handlers.hpp"

#include "nginx_module/http/applicable_rules.hpp"
#include "nginx_module/http/decision.hpp"
#include "nginx_module/http/fallback.hpp"
#include "nginx_module/http/known_denials.hpp"
#include "nginx_module/http/leases.hpp"
#include "nginx_module/http/log_lines.hpp"
#include "nginx_module/http/problem_response.hpp"
#include "nginx_module/http/request_state.hpp"
#include "nginx_module/http/rule_outcomes.hpp"
#include "nginx_module/http/shard_choice.hpp"
#include "nginx_module/util.hpp"

#include <algorithm>

namespace nginx_module {

namespace {

using std::chrono::microseconds;

ngx_int_t handle(ngx_http_request_t *r, Phase phase);
ngx_int_t apply_rules(ngx_http_request_t *r, Phase phase, RequestState *state);
ngx_int_t ask_redis(ngx_http_request_t *r, RequestState &state, std::span<AppliedRule> rules);
ngx_int_t decide_by_answers(ngx_http_request_t *r, RequestState &state);
RequestDecision decide_and_record(ngx_http_request_t *r, RequestState &state,
                                  std::span<AppliedRule> rules);
ngx_int_t carry_out(ngx_http_request_t *r, RequestState &state, const RequestDecision &decision);
ngx_int_t reject(ngx_http_request_t *r, RequestState &state, const RequestDecision &decision);

} // namespace

ngx_int_t access_handler(ngx_http_request_t *r) noexcept {
    return handle(r, Phase::access);
}

ngx_int_t precontent_handler(ngx_http_request_t *r) noexcept {
    return handle(r, Phase::precontent);
}

namespace {

/// nginx calls this when the request comes to the phase, and again after it was suspended there.
ngx_int_t handle(ngx_http_request_t *r, Phase phase) {
    const RuleList *rules = location_conf(r).rules;
    if (r != r->main || rules == nullptr || rules->empty()) {
        return NGX_DECLINED;
    }
    RequestState *state = RequestState::find(r);
    if (state != nullptr) {
        switch (state->stage()) {
        case RequestState::Stage::answered:
            return decide_by_answers(r, *state);
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
        if (state->is_rejected()) {
            return NGX_DECLINED;
        }
    }
    return apply_rules(r, phase, state);
}

/// `state` is null if no rule was applied to the request yet.
ngx_int_t apply_rules(ngx_http_request_t *r, Phase phase, RequestState *state) {
    ApplicableRules rules;
    if (rules.find(r, phase, state != nullptr ? &state->rules() : nullptr) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (rules.empty()) {
        return NGX_DECLINED;
    }
    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "redis_rate_limit applies %uz rules, asks Redis for %uz",
                   rules.decided().size() + rules.open().size(), rules.open().size());
    if (state == nullptr) {
        state = RequestState::create(r);
    }
    if (state == nullptr) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (!rules.decided().empty()) {
        const ngx_int_t result =
            carry_out(r, *state, decide_and_record(r, *state, rules.decided()));
        if (result != NGX_DECLINED) {
            return result;
        }
    }
    return rules.open().empty() ? NGX_DECLINED : ask_redis(r, *state, rules.open());
}

/// Asks Redis, unless the deny cache already knows that rules deny, or this host has leased what
/// the request asks for.
ngx_int_t ask_redis(ngx_http_request_t *r, RequestState &state, std::span<AppliedRule> rules) {
    if (!choose_shards(r, state.rules(), rules)) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    const microseconds now = precise_now();
    if (const auto denying = find_denials(r, state.rules(), rules, now); !denying.empty()) {
        ngx_log_debug1(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                       "redis_rate_limit knows denials of %uz rules", denying.size());
        const RequestDecision decision = decide_and_record(r, state, denying);
        std::ranges::for_each(denying, scale_to_rule);
        return carry_out(r, state, decision);
    }
    const size_t leased = take_leased(rules).size();
    if (leased == rules.size()) {
        ngx_log_debug0(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                       "redis_rate_limit takes units of leases");
        return carry_out(r, state, decide_and_record(r, state, rules));
    }
    const auto open = rules.subspan(leased);
    BackendCheck *checks = make_checks(r, state, open);
    if (checks == nullptr || !std::ranges::all_of(open, [&](const AppliedRule &rule) {
            return set_arguments(r, rule);
        })) {
        give_back_leased(rules);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    switch (state.ask(checks, rules, now)) {
    case NGX_OK:
        return decide_by_answers(r, state);
    case NGX_AGAIN:
        return NGX_AGAIN;
    default:
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
}

/// Called when all checks are answered or have failed. Decides what becomes of the request.
ngx_int_t decide_by_answers(ngx_http_request_t *r, RequestState &state) {
    const std::span<AppliedRule> rules = state.rules().asked();
    ngx_log_debug1(
        NGX_LOG_DEBUG_HTTP, r->connection->log, 0, "redis_rate_limit has its answers after %L us",
        static_cast<int64_t>((state.check_times().answered - state.check_times().asked).count()));
    for (BackendCheck *check = state.checks(); check != nullptr; check = check->next) {
        check->take_answer();
    }
    decide_on_this_host(rules);
    const RequestDecision decision = decide_and_record(r, state, rules);
    if (decision.rejects()) {
        for (BackendCheck *check = state.checks(); check != nullptr; check = check->next) {
            check->refund();
        }
        give_back_leased(rules);
    }
    std::ranges::for_each(rules, scale_to_rule);
    remember_verdicts(rules, state.check_times().asked);
    state.set_idle();
    return carry_out(r, state, decision);
}

/// Decides by rules that all have their results, and records them with the request, in the metrics
/// and, for dry runs, in the log.
RequestDecision decide_and_record(ngx_http_request_t *r, RequestState &state,
                                  std::span<AppliedRule> rules) {
    count_outcomes(rules);
    for (AppliedRule &rule : rules) {
        state.rules().add(rule);
        if (rule.dry_run) {
            log_dry_run(r, rule);
        }
    }
    return decide(rules);
}

/// Carries the decision out. Returns NGX_DECLINED for a request that passes, because NGX_OK would
/// grant access under `satisfy any`.
ngx_int_t carry_out(ngx_http_request_t *r, RequestState &state, const RequestDecision &decision) {
    if (decision.rejects()) {
        return reject(r, state, decision);
    }
    if (decision.delaying == nullptr) {
        ngx_log_debug0(NGX_LOG_DEBUG_HTTP, r->connection->log, 0, "redis_rate_limit passes");
        return NGX_DECLINED;
    }
    ngx_log_debug0(NGX_LOG_DEBUG_HTTP, r->connection->log, 0, "redis_rate_limit delays");
    log_delay(r, *decision.delaying);
    return state.delay(decision.delaying->delay()) ? NGX_AGAIN : NGX_HTTP_INTERNAL_SERVER_ERROR;
}

/// Ends the request here. The status is not returned to the phase engine, which under `satisfy any`
/// would take a 401 or 403 for the opinion of one module among others.
ngx_int_t reject(ngx_http_request_t *r, RequestState &state, const RequestDecision &decision) {
    ngx_int_t result = NGX_HTTP_SERVICE_UNAVAILABLE;
    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "redis_rate_limit rejects, by a verdict: %d", decision.denying != nullptr);
    state.set_rejected();
    if (decision.denying != nullptr) {
        log_rejection(r, *decision.denying);
        const ngx_uint_t status = location_conf(r).status;
        result = is_answered_by_problem(r, status) ? send_problem(r, status, state.rules())
                                                   : static_cast<ngx_int_t>(status);
    }
    ngx_http_finalize_request(r, result);
    return NGX_DONE;
}

} // namespace

} // namespace nginx_module
