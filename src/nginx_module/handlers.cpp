#include "handlers.hpp"

#include "backend.hpp"
#include "candidates.hpp"
#include "denials.hpp"
#include "fallback.hpp"
#include "reports.hpp"
#include "request.hpp"
#include "util.hpp"

#include <algorithm>
#include <utility>

namespace nginx_module {

namespace {

using std::chrono::microseconds;

/// What the rules of a phase, or of those asked so far, come to.
struct Outcome {
    const Applied *denying = nullptr; // the tightest rule that denies
    bool is_closed = false;           // a rule without a verdict rejects
    const Applied *delaying = nullptr;

    bool rejects() const { return denying != nullptr || is_closed; }
};

void consider_verdict(ngx_http_request_t *r, const Applied &applied, Outcome &outcome) {
    const bool has_delay = applied.charge->verdict.delay > microseconds::zero();
    if (applied.dry_run) {
        if (applied.denies()) {
            log_rejection(r, applied);
        } else if (has_delay) {
            log_delay(r, applied);
        }
    } else if (applied.denies()) {
        if (outcome.denying == nullptr || applied.is_tighter(*outcome.denying)) {
            outcome.denying = &applied;
        }
    } else if (has_delay &&
               (outcome.delaying == nullptr ||
                applied.charge->verdict.delay > outcome.delaying->charge->verdict.delay)) {
        outcome.delaying = &applied;
    }
}

Outcome outcome_of(ngx_http_request_t *r, RequestState &state, std::span<Applied> rules) {
    Outcome outcome;
    for (Applied &applied : rules) {
        state.add(applied);
        if (applied.result == Applied::Result::verdict) {
            consider_verdict(r, applied, outcome);
        } else if (applied.rejects()) {
            outcome.is_closed = true;
        }
    }
    return outcome;
}

/// Ends the request here. The status is not returned to the phase engine: under `satisfy any` it
/// would take a 401 or 403 for one module's opinion.
ngx_int_t reject(ngx_http_request_t *r, RequestState &state, const Outcome &outcome) {
    ngx_uint_t status = NGX_HTTP_SERVICE_UNAVAILABLE;
    if (outcome.denying != nullptr) {
        log_rejection(r, *outcome.denying);
        status = location_conf(r).status;
    }
    state.reject();
    ngx_http_finalize_request(r, static_cast<ngx_int_t>(status));
    return NGX_DONE;
}

/// Passes are NGX_DECLINED: NGX_OK would grant access under `satisfy any`.
ngx_int_t conclude(ngx_http_request_t *r, RequestState &state, const Outcome &outcome) {
    if (outcome.rejects()) {
        return reject(r, state, outcome);
    }
    if (outcome.delaying == nullptr) {
        return NGX_DECLINED;
    }
    log_delay(r, *outcome.delaying);
    return state.delay(outcome.delaying->charge->verdict.delay) == NGX_AGAIN
               ? NGX_AGAIN
               : NGX_HTTP_INTERNAL_SERVER_ERROR;
}

ngx_int_t take_answers(ngx_http_request_t *r, RequestState &state) {
    for (Question *question = state.questions(); question != nullptr; question = question->next) {
        question->note_failure();
    }
    for (const Applied &applied : state.asked()) {
        remember_denial(applied, state.times());
    }
    decide_on_this_host(state.asked());
    const Outcome outcome = outcome_of(r, state, state.asked());
    if (outcome.rejects()) {
        for (Question *question = state.questions(); question != nullptr;
             question = question->next) {
            question->refund();
        }
    }
    note_verdicts(state.asked(), state.times().asked);
    state.settle();
    return conclude(r, state, outcome);
}

/// Candidates that it does not take Redis to decide: invalid ones, and limits of 0.
ngx_int_t apply_decided(ngx_http_request_t *r, RequestState &state,
                        std::span<const Candidate> decided) {
    Applied *applied = make_applied(r, decided);
    if (applied == nullptr) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    for (Applied &one : std::span(applied, decided.size())) {
        if (const auto verdict = rate_limit::verdict_without_counter(one.charge->quota)) {
            one.charge->verdict = *verdict;
        }
    }
    return conclude(r, state, outcome_of(r, state, {applied, decided.size()}));
}

/// One question to each backend, and of a cluster for each of its hash slots: a chain, null without
/// memory.
Question *make_questions(ngx_http_request_t *r, RequestState &state, std::span<Applied> applied) {
    Question *questions = nullptr;
    while (!applied.empty()) {
        BackendConf *backend = applied.front().rule->zone->backend;
        const uint16_t hash_slot = applied.front().charge->hash_slot;
        const auto end = std::ranges::find_if_not(applied, [&](const Applied &one) {
            return one.rule->zone->backend == backend && one.charge->hash_slot == hash_slot;
        });
        const auto count = static_cast<size_t>(end - applied.begin());
        void *memory = ngx_palloc(r->pool, sizeof(Question));
        if (memory == nullptr) {
            return nullptr;
        }
        auto *question = new (memory) Question(
            state, backend_of(*backend), {applied.front().charge, count}, applied.first(count));
        question->next = std::exchange(questions, question);
        applied = applied.subspan(count);
    }
    return questions;
}

/// Moves the rules that are known to deny to the front, and returns them.
std::span<Applied> known_denials(std::span<Applied> rules, microseconds now) {
    size_t known = 0;
    for (Applied &applied : rules) {
        if (find_denial(applied, now)) {
            std::swap(rules[known++], applied);
        }
    }
    return rules.first(known);
}

ngx_int_t ask(ngx_http_request_t *r, RequestState &state, std::span<const Candidate> open) {
    Applied *applied = make_applied(r, open);
    const std::span rules(applied, applied != nullptr ? open.size() : 0);
    const auto has_key = [&](const Applied &one) { return set_redis_key(r, one); };
    if (applied == nullptr || !std::ranges::all_of(rules, has_key)) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    const microseconds now = precise_now();
    if (const auto denying = known_denials(rules, now); !denying.empty()) {
        return conclude(r, state, outcome_of(r, state, denying));
    }
    const auto has_arguments = [&](const Applied &one) { return set_arguments(r, one); };
    Question *questions =
        std::ranges::all_of(rules, has_arguments) ? make_questions(r, state, rules) : nullptr;
    if (questions == nullptr) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    switch (state.ask(questions, rules, now)) {
    case NGX_OK:
        return take_answers(r, state);
    case NGX_AGAIN:
        return NGX_AGAIN;
    default:
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
}

ngx_int_t apply(ngx_http_request_t *r, Phase phase) {
    RequestState *state = RequestState::find(r);
    Candidates candidates;
    if (candidates.collect(r, phase, state) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (candidates.decided().empty() && candidates.open().empty()) {
        return NGX_DECLINED;
    }
    state = RequestState::find_or_create(r);
    if (state == nullptr) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (!candidates.decided().empty()) {
        const ngx_int_t result = apply_decided(r, *state, candidates.decided());
        if (result != NGX_DECLINED) {
            return result;
        }
    }
    return candidates.open().empty() ? NGX_DECLINED : ask(r, *state, candidates.open());
}

ngx_int_t handle(ngx_http_request_t *r, Phase phase) {
    const RuleList *rules = location_conf(r).rules;
    if (r != r->main || rules == nullptr || rules->empty()) {
        return NGX_DECLINED;
    }
    if (RequestState *state = RequestState::find(r)) {
        switch (state->stage()) {
        case RequestState::Stage::answered:
            return take_answers(r, *state);
        case RequestState::Stage::delayed:
            state->settle();
            return NGX_DECLINED;
        case RequestState::Stage::asking:
        case RequestState::Stage::delaying:
            state->forget();
            break;
        case RequestState::Stage::idle:
            break;
        }
        if (state->is_rejected()) {
            return NGX_DECLINED;
        }
    }
    return apply(r, phase);
}

} // namespace

ngx_int_t access_handler(ngx_http_request_t *r) noexcept {
    return handle(r, Phase::access);
}

ngx_int_t precontent_handler(ngx_http_request_t *r) noexcept {
    return handle(r, Phase::precontent);
}

} // namespace nginx_module
