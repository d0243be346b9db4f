#include "backend_check.hpp"

#include "../backend/backend.hpp"
#include "../util.hpp"
#include "abandoned_check.hpp"
#include "log_lines.hpp"
#include "request_state.hpp"

#include <utility>

namespace nginx_module {

BackendCheck::BackendCheck(RequestState &state, Backend &backend,
                           std::span<redis_client::Charge> charges, std::span<AppliedRule> rules)
    : state_(state), backend_(backend), charges_(charges), rules_(rules) {}

bool BackendCheck::ask() {
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
    if (command_ == nullptr) {
        count_abandoned(rules_, failure_.has_value());
        return;
    }
    redis_client::Command &command = *std::exchange(command_, nullptr);
    if (AbandonedCheck *heir =
            AbandonedCheck::make(rules_, state_.check_times().asked, backend_.counters())) {
        backend_.hand_over(command, heir->charges(), *heir);
    } else {
        backend_.counters().check_abandoned();
        backend_.abandon(command);
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

std::string_view BackendCheck::describe(std::span<char> out) const {
    return describe_rules(rules_, out);
}

} // namespace nginx_module
