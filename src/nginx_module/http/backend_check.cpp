#include "nginx_module/http/backend_check.hpp"

#include "nginx_module/backend/backend.hpp"
#include "nginx_module/http/abandoned_check.hpp"
#include "nginx_module/http/known_denials.hpp"
#include "nginx_module/http/leases.hpp"
#include "nginx_module/http/log_lines.hpp"
#include "nginx_module/http/request_state.hpp"
#include "nginx_module/http/settlement.hpp"
#include "nginx_module/util.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace nginx_module {

BackendCheck::BackendCheck(RequestState &state, redis_client::Backend &backend,
                           std::span<redis_client::Charge> charges, std::span<AppliedRule> rules)
    : state_(state), backend_(backend), charges_(charges), rules_(rules) {}

bool BackendCheck::ask() {
    for (AppliedRule &rule : rules_) {
        rule.asked = state_.check_times().asked;
    }
    const auto asked = backend_.ask(charges_, *this);
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
    if (command_ == nullptr) {
        keep_leases(rules_, failure_ ? Answered::no : Answered::yes);
        count_abandoned(rules_, failure_.has_value());
        return;
    }
    redis_client::Command &command = *std::exchange(command_, nullptr);
    if (AbandonedCheck *heir =
            AbandonedCheck::make(rules_, state_.check_times().asked, backend_.counters())) {
        heir_ = heir;
        heir->set_waiting_check(this);
        backend_.hand_over(command, heir->charges(), *heir);
    } else {
        backend_.counters().check_abandoned();
        backend_.abandon(command);
    }
}

void BackendCheck::settle_abandoned(ngx_http_request_t *r) {
    if (!is_abandoned_) {
        return;
    }
    for (AppliedRule &applied : rules_) {
        read_final_cost(r, applied);
    }
    if (heir_ != nullptr) {
        heir_->settle_later(rules_);
        heir_ = nullptr;
    } else {
        settle_each(rules_);
    }
}

void BackendCheck::take_late_answer(std::span<const AppliedRule> answered) {
    heir_ = nullptr;
    for (size_t i = 0; i < answered.size(); ++i) {
        redis_client::Charge &charge = *rules_[i].charge;
        charge.quota = answered[i].charge->quota;
        charge.verdict = answered[i].charge->verdict;
        charge.receipt = answered[i].charge->receipt;
        rules_[i].result = answered[i].result;
        rules_[i].source = answered[i].source;
        rules_[i].decided = answered[i].decided;
        rules_[i].is_charged = answered[i].is_charged;
    }
}

void BackendCheck::forget_heir() {
    if (heir_ != nullptr) {
        heir_->set_waiting_check(nullptr);
        heir_ = nullptr;
    }
}

void BackendCheck::refund() {
    if (!failure_) {
        backend_.refund(charges_);
    }
}

void BackendCheck::release_permits() {
    for (redis_client::Charge &charge : charges_) {
        if (charge.permit != nullptr) {
            backend_.release(*std::exchange(charge.permit, nullptr));
        }
    }
}

void BackendCheck::on_answer(std::optional<redis_client::Failure> failure) {
    const auto now = precise_now();
    backend_.counters().check_answered(failure, state_.check_times().asked, now);
    command_ = nullptr;
    failure_ = failure;
    state_.on_answer(now);
}

void BackendCheck::take_answer() {
    keep_leases(rules_, failure_ ? Answered::no : Answered::yes);
    if (failure_) {
        return;
    }
    for (AppliedRule &rule : rules_) {
        rule.result = AppliedRule::Result::verdict;
        rule.is_charged = rule.charge->is_charged;
        rule.decided = rule.charge->decided;
        remember_denial(rule, state_.check_times());
    }
}

std::string_view BackendCheck::describe(std::span<char> out) const {
    return describe_rules(rules_, out);
}

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
        redis_client::Backend &running = backend_of(*backend);
        prepare_leases(running, rules.first(count));
        auto *check = new (memory)
            BackendCheck(state, running, {rules.front().charge, count}, rules.first(count));
        check->next = std::exchange(checks, check);
        rules = rules.subspan(count);
    }
    return checks;
}

} // namespace nginx_module
