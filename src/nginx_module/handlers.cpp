#include "handlers.hpp"

#include "backend.hpp"
#include "candidates.hpp"
#include "denials.hpp"
#include "fallback.hpp"
#include "outcomes.hpp"
#include "reports.hpp"
#include "request.hpp"
#include "util.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace nginx_module {

namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::milliseconds;

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
    count_outcomes(rules);
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

/// False without memory.
bool set_arguments(ngx_http_request_t *r, std::span<const Applied> rules) {
    return std::ranges::all_of(rules, [&](const Applied &one) { return set_arguments(r, one); });
}

/// One question to each backend, and of a cluster for each of its hash slots: a chain that goes on
/// with `questions`, null without memory.
Question *make_questions(ngx_http_request_t *r, RequestState &state, std::span<Applied> applied,
                         Question *questions) {
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

/// What was answered holds for its rules. Without an answer they stay as they were: without a
/// verdict, or with that of the shard that was asked first.
void take_answer(const Question &question, const rate_limit::DenyTable::CheckTimes &times) {
    if (!question.has_answer()) {
        return;
    }
    for (Applied &applied : question.rules()) {
        applied.result = Applied::Result::verdict;
        applied.is_charged = applied.charge->is_charged;
        remember_denial(applied, times);
    }
}

/// What is left of the time that their backends have for rules that reject.
milliseconds time_left(const RequestState &state, microseconds now) {
    auto left = milliseconds::max();
    for (const Applied &applied : state.asked()) {
        if (applied.rejects()) {
            const auto timeout = applied.rule->zone->backend->session.timeout;
            left = std::min(left, duration_cast<milliseconds>(state.first_asked() + timeout - now));
        }
    }
    return left;
}

/// Where nothing but shards rejects the request, another shard of each of their rules may grant it.
bool choose_other_shards(ngx_http_request_t *r, const RequestState &state, microseconds now) {
    return std::ranges::all_of(state.asked(), [&](Applied &applied) {
        return !applied.rejects() ||
               (choose_other_shard(r, state, applied) && !find_denial(applied, now));
    });
}

/// New questions for those whose rules reject: a chain, null without memory.
Question *make_questions_again(ngx_http_request_t *r, RequestState &state) {
    Question *questions = nullptr;
    for (Question *question = state.questions(); question != nullptr; question = question->next) {
        if (std::ranges::any_of(question->rules(), &Applied::rejects)) {
            questions = set_arguments(r, question->rules())
                            ? make_questions(r, state, question->rules(), questions)
                            : nullptr;
            if (questions == nullptr) {
                return nullptr;
            }
        }
    }
    return questions;
}

/// Asks again where a second try may help, as RequestState::ask_again(); nothing where it may not.
std::optional<ngx_int_t> ask_other_shards(ngx_http_request_t *r, RequestState &state) {
    const microseconds now = precise_now();
    const milliseconds left = time_left(state, now);
    if (left.count() <= 0 || !choose_other_shards(r, state, now)) {
        return std::nullopt;
    }
    Question *questions = make_questions_again(r, state);
    return questions != nullptr ? state.ask_again(questions, now, left) : NGX_ERROR;
}

ngx_int_t take_answers(ngx_http_request_t *r, RequestState &state);

/// `asked` is what RequestState::ask() has returned.
ngx_int_t go_on(ngx_http_request_t *r, RequestState &state, ngx_int_t asked) {
    switch (asked) {
    case NGX_OK:
        return take_answers(r, state);
    case NGX_AGAIN:
        return NGX_AGAIN;
    default:
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
}

ngx_int_t take_answers(ngx_http_request_t *r, RequestState &state) {
    for (Question *question = state.questions(); question != nullptr; question = question->next) {
        take_answer(*question, state.times());
    }
    if (std::ranges::any_of(state.asked(), &Applied::rejects)) {
        if (const auto asked = ask_other_shards(r, state)) {
            return go_on(r, state, *asked);
        }
    }
    decide_on_this_host(state.asked());
    const Outcome outcome = outcome_of(r, state, state.asked());
    if (outcome.rejects()) {
        for (Question *question = state.questions(); question != nullptr;
             question = question->next) {
            question->refund();
        }
    }
    std::ranges::for_each(state.asked(), tell_of_rule);
    note_verdicts(state.asked(), state.times().asked);
    state.settle();
    return conclude(r, state, outcome);
}

/// A rule with shards denies where two of them do.
bool is_known_to_deny(ngx_http_request_t *r, const RequestState &state, Applied &applied,
                      microseconds now) {
    if (!find_denial(applied, now)) {
        return false;
    }
    if (!choose_other_shard(r, state, applied)) {
        return true;
    }
    applied.result = Applied::Result::no_verdict;
    applied.source = Applied::Source::redis;
    return find_denial(applied, now);
}

/// Moves the rules that are known to deny to the front, and returns them.
std::span<Applied> known_denials(ngx_http_request_t *r, const RequestState &state,
                                 std::span<Applied> rules, microseconds now) {
    size_t known = 0;
    for (Applied &applied : rules) {
        if (is_known_to_deny(r, state, applied, now)) {
            std::swap(rules[known++], applied);
        }
    }
    return rules.first(known);
}

ngx_int_t ask(ngx_http_request_t *r, RequestState &state, std::span<const Candidate> open) {
    Applied *applied = make_applied(r, open);
    const std::span rules(applied, applied != nullptr ? open.size() : 0);
    // One for all: shards of the same number are in one slot of a cluster.
    const auto chance = static_cast<uint64_t>(ngx_random());
    const auto has_shard = [&](Applied &one) { return choose_shard(r, state, one, chance); };
    if (applied == nullptr || !std::ranges::all_of(rules, has_shard)) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    const microseconds now = precise_now();
    if (const auto denying = known_denials(r, state, rules, now); !denying.empty()) {
        const Outcome outcome = outcome_of(r, state, denying);
        std::ranges::for_each(denying, tell_of_rule);
        return conclude(r, state, outcome);
    }
    Question *questions =
        set_arguments(r, rules) ? make_questions(r, state, rules, nullptr) : nullptr;
    return go_on(r, state, questions != nullptr ? state.ask(questions, rules, now) : NGX_ERROR);
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
