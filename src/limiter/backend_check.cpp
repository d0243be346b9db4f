#include "limiter/backend_check.hpp"

#include "limiter/fallback.hpp"
#include "limiter/kept_units.hpp"
#include "limiter/known_denials.hpp"
#include "limiter/leases.hpp"
#include "limiter/rule_outcomes.hpp"
#include "limiter/shard_choice.hpp"

#include <algorithm>
#include <utility>

namespace limiter {

BackendCheck::BackendCheck(Worker &worker, Callbacks &callbacks, std::span<AppliedRule> rules)
    : worker_(worker),
      callbacks_(callbacks),
      backend_(worker.backends.of(*rules.front().rule->zone->backend)),
      rules_(rules) {}

bool BackendCheck::ask(std::chrono::microseconds now) {
    asked_ = now;
    for (AppliedRule &rule : rules_) {
        rule.asked = now;
    }
    const auto asked = backend_.ask(charges(), *this);
    if (const auto *failure = std::get_if<redis_client::Failure>(&asked)) {
        failure_ = *failure;
        backend_.counters().check_refused(*failure);
        return false;
    }
    backend_.counters().check_asked();
    command_ = std::get<redis_client::Command *>(asked);
    return true;
}

void BackendCheck::abandon() {
    is_abandoned_ = true;
    if (is_answered()) {
        conclude_abandoned();
    } else {
        backend_.abandon(*command_);
    }
}

void BackendCheck::on_answer(std::optional<redis_client::Failure> failure) {
    const auto now = worker_.world.precise_now();
    backend_.counters().check_answered(failure, asked_, now);
    command_ = nullptr;
    failure_ = failure;
    if (is_abandoned_) {
        conclude_abandoned();
    }
    callbacks_.on_answer(*this, now);
}

void BackendCheck::conclude_abandoned() {
    take_answer({.asked = asked_, .answered = worker_.world.precise_now()});
    if (failure_) {
        decide_on_this_host(worker_, rules_);
    }
    count_outcomes(rules_);
    std::ranges::for_each(rules_, scale_to_rule);
    remember_verdicts(rules_, asked_);
    for (const AppliedRule &applied : rules_) {
        release_permits_of_this_host(worker_, applied);
    }
}

void BackendCheck::take_answer(const rate_limit::DenyCache::CheckTimes &times) {
    keep_leases(worker_, rules_, failure_ ? Answered::no : Answered::yes);
    if (failure_) {
        return;
    }
    for (AppliedRule &rule : rules_) {
        rule.take_answer();
    }
    remember_denials(rules_, times);
}

void BackendCheck::refund() {
    if (!failure_) {
        backend_.refund(charges());
    }
}

void BackendCheck::release_permits() {
    for (redis_client::Charge &charge : charges()) {
        if (charge.permit != nullptr && is_answered()) { // else the session gives it back
            backend_.release(*std::exchange(charge.permit, nullptr));
        }
    }
}

std::string_view BackendCheck::describe(std::span<char> out) const {
    return worker_.log.describe(rules_, out);
}

BackendCheck *make_checks(Worker &worker, Arena &arena, BackendCheck::Callbacks &callbacks,
                          std::span<AppliedRule> rules) {
    BackendCheck *checks = nullptr;
    while (!rules.empty()) {
        const redis_client::BackendSettings *backend = rules.front().rule->zone->backend;
        const uint16_t hash_slot = rules.front().charge->hash_slot;
        const auto end = std::ranges::find_if_not(rules, [&](const AppliedRule &rule) {
            return rule.rule->zone->backend == backend && rule.charge->hash_slot == hash_slot;
        });
        const auto of_check = rules.first(static_cast<size_t>(end - rules.begin()));
        auto *check = arena.make<BackendCheck>(worker, callbacks, of_check);
        if (check == nullptr) {
            return nullptr;
        }
        prepare_leases(worker, of_check);
        check->next = std::exchange(checks, check);
        rules = rules.subspan(of_check.size());
    }
    return checks;
}

} // namespace limiter
