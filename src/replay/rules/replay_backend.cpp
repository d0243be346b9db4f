#include "replay/rules/replay_backend.hpp"

#include "rate_limit/text/text_writer.hpp"
#include "redis_client/script/answer.hpp"
#include "redis_client/script/arguments.hpp"

#include <utility>

namespace replay {

using redis_client::Charge;

std::variant<redis_client::Command *, redis_client::Failure>
ReplayBackend::ask(std::span<Charge> charges, redis_client::CheckCallbacks &callbacks) {
    prepare_permits(charges);
    const redis_client::ScriptShape shape = redis_client::shape_of(charges);
    context_.group.scripts.add(shape);
    const redis_client::Script &script = context_.group.scripts.check(shape);
    check_.charges = charges;
    redis_client::write_checks(bytes_, script, sending_of(script), check_,
                               context_.group.unix_clock);
    const std::string_view answer = run_command();
    if (error_.empty() &&
        (answer.size() != redis_client::answer_size(charges) ||
         redis_client::read_answer(answer, charges) != redis_client::AnswerState::good)) {
        error_ = "a check was answered by something else";
    }
    for (Charge &charge : charges) {
        if (charge.permit != nullptr && !(charge.is_charged && charge.quota.charges())) {
            context_.group.permits.give_back(*std::exchange(charge.permit, nullptr));
        }
    }
    asking_ = &callbacks;
    return &check_;
}

void ReplayBackend::answer() {
    std::exchange(asking_, nullptr)
        ->on_answer(error_.empty() ? std::nullopt : std::optional(redis_client::Failure::reply));
}

/// Asks for permits that last, and gives each of them a name.
void ReplayBackend::prepare_permits(std::span<Charge> charges) {
    arguments_.clear();
    arguments_.reserve(charges.size()); // its elements stay where they are
    for (Charge &charge : charges) {
        if (!rate_limit::holds_permits(charge.quota.algorithm)) {
            continue;
        }
        charge.quota.window = lasting_permit;
        charge.arguments = &arguments_.emplace_back(
            redis_client::check_arguments(charge.quota, /*aligned=*/false));
        redis_client::Permit *permit = context_.group.permits.take();
        if (permit == nullptr) {
            error_ = "out of memory";
            return;
        }
        rate_limit::TextWriter name(permit->name_bytes);
        name << permits_made_++ << " " << charge.quota.to_charge();
        permit->name = {permit->name_bytes.data(), name.size()};
        permit->redis_key = charge.redis_key;
        charge.permit = permit;
    }
}

void ReplayBackend::release(redis_client::Permit &permit) {
    const redis_client::Script &script = context_.group.scripts.release();
    redis_client::write_release(bytes_, script, sending_of(script), permit);
    run_command();
    context_.group.permits.give_back(permit);
}

void ReplayBackend::settle(const redis_client::SettlementOrder &order) {
    const Charge &charge = order.charge;
    redis_client::Settlement settlement;
    settlement.kind = order.kind;
    settlement.algorithm = charge.quota.algorithm;
    settlement.redis_key = charge.redis_key;
    settlement.calendar = charge.quota.calendar;
    settlement.arguments = order.kind == redis_client::SettlementKind::debt
                               ? redis_client::debt_arguments(charge.quota, order.aligned)
                               : redis_client::refund_arguments(charge.quota, charge.to_return());
    redis_client::SettlementList list;
    list.push_back(settlement);
    const redis_client::Script &script =
        context_.group.scripts.settlement(charge.quota.algorithm, order.kind);
    redis_client::write_settlements(bytes_, script, sending_of(script), list,
                                    context_.group.unix_clock);
    run_command();
}

redis_client::Sending ReplayBackend::sending_of(const redis_client::Script &script) {
    return sent_.insert(&script).second ? redis_client::Sending::in_full
                                        : redis_client::Sending::by_name;
}

/// Runs the command that was written. Returns the answer's text, and sets error_ if it failed.
std::string_view ReplayBackend::run_command() {
    const Answer answer = redis_.run(bytes_.bytes(), world_.precise_now().count());
    bytes_.clear();
    if (answer.type == Answer::Type::error) {
        error_ = answer.text;
        return {};
    }
    return answer.text;
}

} // namespace replay
