#include "question.hpp"

#include "abandoned_check.hpp"
#include "backend.hpp"
#include "reports.hpp"
#include "request.hpp"
#include "util.hpp"

#include <utility>

namespace nginx_module {

Question::Question(RequestState &state, Backend &backend, std::span<redis_client::Charge> charges,
                   std::span<Applied> rules)
    : state_(state), backend_(backend), charges_(charges), rules_(rules) {}

bool Question::ask() {
    const auto asked = backend_.ask(charges_, *this);
    if (const auto *failure = std::get_if<redis_client::Failure>(&asked)) {
        failure_ = *failure;
        memory().check_refused(*failure);
        return false;
    }
    memory().check_asked();
    call_ = std::get<redis_client::Call *>(asked);
    return true;
}

void Question::read_now() {
    if (call_ != nullptr) {
        backend_.read_now(*call_);
    }
}

void Question::give_up() {
    if (call_ != nullptr) {
        backend_.abandon(*std::exchange(call_, nullptr));
        failure_ = redis_client::Failure::timeout;
        memory().check_answered(failure_, state_.times().asked, precise_now());
    }
}

void Question::abandon() {
    if (call_ == nullptr) {
        conclude_abandoned(rules_, failure_.has_value());
        return;
    }
    redis_client::Call &call = *std::exchange(call_, nullptr);
    if (AbandonedCheck *heir = AbandonedCheck::make(rules_, state_.times().asked)) {
        backend_.hand_over(call, heir->charges(), *heir);
    } else {
        memory().check_abandoned();
        backend_.abandon(call);
    }
}

void Question::refund() {
    if (!failure_) {
        backend_.refund(charges_);
    }
}

void Question::release_slots() {
    for (redis_client::Charge &charge : charges_) {
        if (charge.slot != nullptr) {
            backend_.release(*std::exchange(charge.slot, nullptr));
        }
    }
}

void Question::on_answer(std::optional<redis_client::Failure> failure) {
    const auto now = precise_now();
    memory().check_answered(failure, state_.times().asked, now);
    call_ = nullptr;
    failure_ = failure;
    state_.on_answer(now);
}

std::string_view Question::describe(std::span<char> out) const {
    return describe_rules(rules_, out);
}

const BackendMemory &Question::memory() const {
    return rules_.front().rule->zone->backend->memory;
}

} // namespace nginx_module
