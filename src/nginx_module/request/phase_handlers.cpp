// Read from the bottom: which rules apply → those that this host decides alone → those that Redis
// is asked for → its answers → what becomes of the request.
#include "phase_handlers.hpp"

#include "../backend/backend.hpp"
#include "../util.hpp"
#include "applicable_rules.hpp"
#include "charges.hpp"
#include "decision.hpp"
#include "deny_cache.hpp"
#include "fallback.hpp"
#include "log_lines.hpp"
#include "request_state.hpp"
#include "rule_outcomes.hpp"

#include <algorithm>
#include <utility>

namespace nginx_module {

namespace {

using std::chrono::microseconds;

/// Of a request's debug lines, which `debug_connection` chooses too.
ngx_log_t *log_of(const ngx_http_request_t *r) {
    return r->connection->log;
}

/// Ends the request here. The status is not returned to the phase engine: under `satisfy any` it
/// would take a 401 or 403 for one module's opinion.
ngx_int_t reject(ngx_http_request_t *r, RequestState &state, const RequestDecision &decision) {
    ngx_uint_t status = NGX_HTTP_SERVICE_UNAVAILABLE;
    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, log_of(r), 0, "redis_rate_limit rejects, by a verdict: %d",
                   decision.denying != nullptr);
    if (decision.denying != nullptr) {
        log_rejection(r, *decision.denying);
        status = location_conf(r).status;
    }
    state.set_rejected();
    ngx_http_finalize_request(r, static_cast<ngx_int_t>(status));
    return NGX_DONE;
}

/// Carries the decision out. A request passes by NGX_DECLINED: NGX_OK would grant access under
/// `satisfy any`.
ngx_int_t carry_out(ngx_http_request_t *r, RequestState &state, const RequestDecision &decision) {
    if (decision.rejects()) {
        return reject(r, state, decision);
    }
    if (decision.delaying == nullptr) {
        ngx_log_debug0(NGX_LOG_DEBUG_HTTP, log_of(r), 0, "redis_rate_limit passes");
        return NGX_DECLINED;
    }
    ngx_log_debug0(NGX_LOG_DEBUG_HTTP, log_of(r), 0, "redis_rate_limit delays");
    log_delay(r, *decision.delaying);
    return state.delay(decision.delaying->charge->verdict.delay) ? NGX_AGAIN
                                                                 : NGX_HTTP_INTERNAL_SERVER_ERROR;
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

/// Takes what Redis answered. Rules without an answer stay without a verdict.
void take_answer(const BackendCheck &check, const rate_limit::DenyTable::CheckTimes &times) {
    if (!check.has_answer()) {
        return;
    }
    for (AppliedRule &rule : check.rules()) {
        rule.result = AppliedRule::Result::verdict;
        rule.is_charged = rule.charge->is_charged;
        remember_denial(rule, times);
    }
}

/// All checks are answered, or have failed.
ngx_int_t decide_by_answers(ngx_http_request_t *r, RequestState &state) {
    const std::span<AppliedRule> rules = state.rules().asked();
    ngx_log_debug1(
        NGX_LOG_DEBUG_HTTP, log_of(r), 0, "redis_rate_limit has its answers after %L us",
        static_cast<int64_t>((state.check_times().answered - state.check_times().asked).count()));
    for (BackendCheck *check = state.checks(); check != nullptr; check = check->next) {
        take_answer(*check, state.check_times());
    }
    decide_on_this_host(rules);
    const RequestDecision decision = decide_and_record(r, state, rules);
    if (decision.rejects()) {
        for (BackendCheck *check = state.checks(); check != nullptr; check = check->next) {
            check->refund();
        }
    }
    std::ranges::for_each(rules, scale_to_rule);
    remember_verdicts(rules, state.check_times().asked);
    state.set_idle();
    return carry_out(r, state, decision);
}

/// Makes one check for each backend, and in a cluster for each hash slot. Returns null if memory
/// ran out.
BackendCheck *make_checks(ngx_http_request_t *r, RequestState &state,
                          std::span<AppliedRule> rules) {
    BackendCheck *checks = nullptr;
    while (!rules.empty()) {
        const BackendConf *backend = rules.front().rule->zone->backend;
        const uint16_t hash_slot = rules.front().charge->hash_slot;
        const auto end = std::ranges::find_if_not(rules, [&](const AppliedRule &rule) {
            return rule.rule->zone->backend == backend && rule.charge->hash_slot == hash_slot;
        });
        const auto count = static_cast<size_t>(end - rules.begin());
        void *memory = ngx_palloc(r->pool, sizeof(BackendCheck));
        if (memory == nullptr) {
            return nullptr;
        }
        auto *check = new (memory) BackendCheck(state, backend_of(*backend),
                                                {rules.front().charge, count}, rules.first(count));
        check->next = std::exchange(checks, check);
        rules = rules.subspan(count);
    }
    return checks;
}

/// Gives all charges their Redis keys. Returns false if memory ran out.
bool choose_shards(ngx_http_request_t *r, const RequestState &state, std::span<AppliedRule> rules) {
    // One for all: shards of the same number are in one hash slot of a cluster.
    const auto chance = static_cast<uint64_t>(ngx_random());
    return std::ranges::all_of(
        rules, [&](AppliedRule &rule) { return choose_shard(r, state.rules(), rule, chance); });
}

/// Of a rule with shards, two have to be known to deny.
bool is_known_to_deny(ngx_http_request_t *r, const RequestState &state, AppliedRule &rule,
                      microseconds now) {
    if (!find_denial(rule, now)) {
        return false;
    }
    if (!choose_other_shard(r, state.rules(), rule)) {
        return true;
    }
    rule.result = AppliedRule::Result::no_verdict;
    rule.source = AppliedRule::Source::redis;
    return find_denial(rule, now);
}

/// Moves the rules that are known to deny to the front, and returns them.
std::span<AppliedRule> find_denials(ngx_http_request_t *r, const RequestState &state,
                                    std::span<AppliedRule> rules, microseconds now) {
    size_t known = 0;
    for (AppliedRule &rule : rules) {
        if (is_known_to_deny(r, state, rule, now)) {
            std::swap(rules[known++], rule);
        }
    }
    return rules.first(known);
}

/// Asks Redis, where it is not known what it would say.
ngx_int_t check(ngx_http_request_t *r, RequestState &state, std::span<AppliedRule> rules) {
    if (!choose_shards(r, state, rules)) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    const microseconds now = precise_now();
    if (const auto denying = find_denials(r, state, rules, now); !denying.empty()) {
        ngx_log_debug1(NGX_LOG_DEBUG_HTTP, log_of(r), 0,
                       "redis_rate_limit knows denials of %uz rules", denying.size());
        const RequestDecision decision = decide_and_record(r, state, denying);
        std::ranges::for_each(denying, scale_to_rule);
        return carry_out(r, state, decision);
    }
    const bool has_arguments =
        std::ranges::all_of(rules, [&](const AppliedRule &rule) { return set_arguments(r, rule); });
    BackendCheck *checks = has_arguments ? make_checks(r, state, rules) : nullptr;
    switch (checks != nullptr ? state.ask(checks, rules, now) : NGX_ERROR) {
    case NGX_OK:
        return decide_by_answers(r, state);
    case NGX_AGAIN:
        return NGX_AGAIN;
    default:
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
}

ngx_int_t apply_rules(ngx_http_request_t *r, Phase phase) {
    RequestState *state = RequestState::find(r);
    ApplicableRules rules;
    if (rules.find(r, phase, state != nullptr ? &state->rules() : nullptr) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (rules.empty()) {
        return NGX_DECLINED;
    }
    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, log_of(r), 0,
                   "redis_rate_limit applies %uz rules, asks Redis for %uz",
                   rules.decided().size() + rules.open().size(), rules.open().size());
    state = RequestState::find_or_create(r);
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
    return rules.open().empty() ? NGX_DECLINED : check(r, *state, rules.open());
}

/// nginx calls this when the request comes to the phase, and again when it was suspended there.
ngx_int_t handle(ngx_http_request_t *r, Phase phase) {
    const RuleList *rules = location_conf(r).rules;
    if (r != r->main || rules == nullptr || rules->empty()) {
        return NGX_DECLINED;
    }
    if (RequestState *state = RequestState::find(r)) {
        switch (state->stage()) {
        case RequestState::Stage::answered:
            return decide_by_answers(r, *state);
        case RequestState::Stage::delayed:
            ngx_log_debug0(NGX_LOG_DEBUG_HTTP, log_of(r), 0, "redis_rate_limit ends the delay");
            state->set_idle();
            return NGX_DECLINED;
        case RequestState::Stage::asking:
        case RequestState::Stage::delaying:
            state->abandon(); // nginx has led the request elsewhere, as to a post_action
            break;
        case RequestState::Stage::idle:
            break;
        }
        if (state->is_rejected()) {
            return NGX_DECLINED;
        }
    }
    return apply_rules(r, phase);
}

} // namespace

ngx_int_t access_handler(ngx_http_request_t *r) noexcept {
    return handle(r, Phase::access);
}

ngx_int_t precontent_handler(ngx_http_request_t *r) noexcept {
    return handle(r, Phase::precontent);
}

} // namespace nginx_module
