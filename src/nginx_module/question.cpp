#include "question.hpp"

#include "backend.hpp"
#include "request.hpp"

#include <utility>

namespace nginx_module {

Question::Question(RequestState &state, Backend &backend, std::span<redis_client::Charge> charges,
                   std::span<Applied> rules)
    : state_(state), backend_(backend), charges_(charges), rules_(rules) {}

bool Question::ask() {
    const auto asked = backend_.ask(charges_, *this);
    if (const auto *failure = std::get_if<redis_client::Failure>(&asked)) {
        failure_ = *failure;
        return false;
    }
    call_ = std::get<redis_client::Call *>(asked);
    return true;
}

void Question::abandon() {
    if (call_ != nullptr) {
        backend_.abandon(*std::exchange(call_, nullptr));
        failure_ = redis_client::Failure::timeout;
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
    call_ = nullptr;
    failure_ = failure;
    state_.on_answer();
}

} // namespace nginx_module
