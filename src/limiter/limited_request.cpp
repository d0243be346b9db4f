#include "limiter/limited_request.hpp"

#include "limiter/fallback.hpp"
#include "limiter/known_denials.hpp"
#include "limiter/leases.hpp"
#include "limiter/rule_outcomes.hpp"
#include "limiter/settlement.hpp"
#include "limiter/shard_choice.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace limiter {

using std::chrono::microseconds;

LimitedRequest *LimitedRequest::create(Worker &worker, Request &request) {
    void *memory = worker.requests.take(sizeof(LimitedRequest));
    return memory != nullptr ? new (memory) LimitedRequest(worker, request) : nullptr;
}

Step LimitedRequest::apply(const Level &level, rate_limit::Phase phase) {
    ApplicableRules rules(worker_, *request_, arena_, rules_);
    if (!rules.find(level, phase)) {
        return {Step::Kind::no_memory};
    }
    if (rules.empty()) {
        return {};
    }
    request_->report(RequestEvent::applies_rules,
                     static_cast<int64_t>(rules.decided().size() + rules.open().size()));
    if (!rules.decided().empty()) {
        const Step step = step_of(decide_and_record(rules.decided()));
        if (step.kind != Step::Kind::pass) {
            return step;
        }
    }
    return rules.open().empty() ? Step{} : ask_redis(rules.open());
}

/// Asks Redis, unless the deny cache already knows that rules deny, or this host has leased what
/// the request asks for.
Step LimitedRequest::ask_redis(std::span<AppliedRule> rules) {
    if (!choose_shards(worker_, arena_, rules_, rules)) {
        return {Step::Kind::no_memory};
    }
    const microseconds now = worker_.world.precise_now();
    if (const auto denying = find_denials(worker_, arena_, rules_, rules, now); !denying.empty()) {
        request_->report(RequestEvent::knows_denials, static_cast<int64_t>(denying.size()));
        const RequestDecision decision = decide_and_record(denying);
        std::ranges::for_each(denying, scale_to_rule);
        return step_of(decision);
    }
    const size_t leased = take_leased(worker_, rules).size();
    if (leased > 0) {
        request_->report(RequestEvent::takes_leased, static_cast<int64_t>(leased));
    }
    if (leased == rules.size()) {
        return step_of(decide_and_record(rules));
    }
    const auto open = rules.subspan(leased);
    BackendCheck *checks = make_checks(worker_, arena_, *this, open);
    if (checks == nullptr || !std::ranges::all_of(open, [&](const AppliedRule &rule) {
            return set_arguments(arena_, rule);
        })) {
        give_back_leased(worker_, rules);
        return {Step::Kind::no_memory};
    }
    return ask(checks, rules, now);
}

Step LimitedRequest::ask(BackendCheck *checks, std::span<AppliedRule> rules, microseconds now) {
    checks_ = checks;
    rules_.set_asked(rules);
    check_times_.asked = check_times_.answered = now;
    for (BackendCheck *check = checks; check != nullptr; check = check->next) {
        unanswered_ += check->ask(now) ? 1 : 0;
    }
    if (unanswered_ == 0) {
        return take_answers();
    }
    request_->report(RequestEvent::asks_redis, static_cast<int64_t>(unanswered_));
    return {Step::Kind::wait};
}

void LimitedRequest::on_answer(BackendCheck &check, microseconds now) {
    if (check.is_abandoned()) {
        count_rejection(check.rules(), rules_.first_abandoned());
        if (--abandoned_ == 0 && is_over_) {
            settle_charges();
        }
        destroy_if_unused();
        return;
    }
    if (--unanswered_ == 0) {
        check_times_.answered = now;
        time_asking_ += check_times_.answered - check_times_.asked;
        request_->on_answered();
    }
}

Step LimitedRequest::take_answers() {
    const std::span<AppliedRule> rules = rules_.asked();
    request_->report(RequestEvent::has_answers,
                     (check_times_.answered - check_times_.asked).count());
    for (BackendCheck *check = checks_; check != nullptr; check = check->next) {
        check->take_answer(check_times_);
    }
    decide_on_this_host(worker_, rules);
    const RequestDecision decision = decide_and_record(rules);
    if (decision.rejects()) {
        for (BackendCheck *check = checks_; check != nullptr; check = check->next) {
            check->refund();
        }
        give_back_leased(worker_, rules);
    }
    std::ranges::for_each(rules, scale_to_rule);
    remember_verdicts(rules, check_times_.asked);
    keep_checks();
    return step_of(decision);
}

/// Decides by rules that all have their results, and records them with the request, in the metrics
/// and, for dry runs, in the log.
RequestDecision LimitedRequest::decide_and_record(std::span<AppliedRule> rules) {
    count_outcomes(rules);
    for (AppliedRule &rule : rules) {
        rules_.add(rule);
        if (rule.dry_run) {
            request_->report_dry_run(rule);
        }
    }
    const RequestDecision decision = decide(rules);
    if (decision.rejects()) {
        count_rejection(rules);
    }
    return decision;
}

Step LimitedRequest::step_of(const RequestDecision &decision) {
    if (decision.rejects()) {
        is_rejected_ = true;
        return {Step::Kind::reject, decision};
    }
    if (decision.delaying != nullptr) {
        return {Step::Kind::hold_back, decision};
    }
    request_->report(RequestEvent::passes);
    return {};
}

/// The answers of the last checks have been dealt with.
void LimitedRequest::keep_checks() {
    while (BackendCheck *check = checks_) {
        checks_ = check->next;
        check->next = std::exchange(earlier_checks_, check);
    }
}

void LimitedRequest::abandon() {
    if (checks_ != nullptr) {
        const auto leased = std::ranges::find_if_not(
            rules_.asked(), [](const AppliedRule &rule) { return rule.lease.taken.has_value(); });
        const auto taken = rules_.asked().first( // they are at the front
            static_cast<size_t>(leased - rules_.asked().begin()));
        give_back_leased(worker_, taken);
        count_outcomes(taken);
        rules_.abandon_asked();
    }
    for (BackendCheck *check = checks_; check != nullptr; check = check->next) {
        const bool is_answered = check->is_answered();
        abandoned_ += is_answered ? 0 : 1;
        check->abandon();
        if (is_answered) {
            count_rejection(check->rules(), rules_.first_abandoned());
        }
    }
    unanswered_ = 0;
    keep_checks();
}

void LimitedRequest::settle() {
    abandon();
    is_over_ = true;
    if (!is_rejected_) {
        read_final_costs(*request_, rules_);
    }
    if (abandoned_ == 0) {
        settle_charges();
    }
}

/// Settles what all checks of the request have charged. A charge that comes later would not be seen
/// with those of its counter before it, so the last answer is waited for.
void LimitedRequest::settle_charges() {
    if (!is_rejected_) {
        limiter::settle(worker_, rules_);
    }
    for (const AppliedRule *applied = rules_.first(); applied != nullptr; applied = applied->next) {
        if (applied->lease.taken && applied->rule->may_settle) {
            count_used_units(*applied);
        }
    }
}

void LimitedRequest::end() {
    abandon();
    request_ = nullptr;
    for (BackendCheck *check = earlier_checks_; check != nullptr; check = check->next) {
        check->release_permits();
    }
    for (const AppliedRule *one = rules_.first(); one != nullptr; one = one->next) {
        release_permits_of_this_host(worker_, *one);
    }
    destroy_if_unused();
}

void LimitedRequest::destroy_if_unused() {
    if (request_ == nullptr && abandoned_ == 0) {
        SpareMemory &requests = worker_.requests;
        this->~LimitedRequest();
        requests.give_back(this);
    }
}

} // namespace limiter
