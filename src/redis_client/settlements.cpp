#include "settlements.hpp"

#include "arguments.hpp"

#include "../rate_limit/text.hpp"

#include <algorithm>
#include <utility>

namespace redis_client {

using rate_limit::SettlementResult;

namespace {

/// A run of the script is to stay below a millisecond. A log has an entry for each unit.
constexpr size_t most_at_once = 64;
constexpr size_t most_at_once_of_logs = 8;

size_t longest_batch(const Settlement &first) {
    return first.algorithm == rate_limit::Algorithm::sliding_log ? most_at_once_of_logs
                                                                 : most_at_once;
}

bool can_share(const Settlement &one, const Settlement &other) {
    return one.kind == other.kind && one.algorithm == other.algorithm &&
           one.hash_slot == other.hash_slot;
}

void count(rate_limit::RuleCounters *counters, SettlementResult result) {
    if (counters != nullptr) {
        counters->count(result);
    }
}

} // namespace

Settlements::~Settlements() {
    while (Settlement *settlement = waiting_.front()) {
        waiting_.remove(*settlement);
        end(*settlement, SettlementResult::lost);
    }
}

void Settlements::add(const SettlementOrder &order) {
    const bool has_room = group_.settlements.in_use() < group_.settings.max_pending;
    Settlement *settlement = has_room ? group_.settlements.take() : nullptr;
    if (settlement == nullptr) {
        count(order.counters, SettlementResult::lost);
        return;
    }
    const Charge &charge = order.charge;
    settlement->kind = order.kind;
    settlement->algorithm = charge.quota.algorithm;
    settlement->hash_slot = charge.hash_slot;
    settlement->arguments = order.kind == SettlementKind::debt
                                ? debt_arguments(charge.quota, order.aligned)
                                : refund_arguments(charge.quota, charge.receipt);
    settlement->counters = order.counters;
    rate_limit::append(settlement->redis_key_bytes.data(), charge.redis_key);
    settlement->redis_key = {settlement->redis_key_bytes.data(), charge.redis_key.size()};
    waiting_.push_back(*settlement);
}

void Settlements::send(bool may_share, Time now) {
    if (!pipeline_.is_open()) {
        return;
    }
    // What has no room in the output waits on, so each is looked at once.
    SettlementList to_send = std::exchange(waiting_, SettlementList());
    while (Settlement *first = to_send.front()) {
        to_send.remove(*first);
        Command *command = pipeline_.new_command(Command::Kind::settlement);
        if (command == nullptr) {
            waiting_.push_back(*first);
            continue;
        }
        command->hash_slot = first->hash_slot;
        command->settlements.push_back(*first);
        size_t room = may_share ? longest_batch(*first) - 1 : 0;
        for (Settlement *next = to_send.front(); next != nullptr && room > 0;) {
            Settlement &other = *std::exchange(next, next->hook.next);
            if (can_share(*first, other)) {
                to_send.remove(other);
                command->settlements.push_back(other);
                --room;
            }
        }
        sent_ += count_of(*command);
        if (!pipeline_.send(*command, now)) {
            wait_again(*command);
        }
    }
}

bool Settlements::is_answer(const Command &command, std::string_view results) {
    return results.size() == count_of(command) &&
           results.find_first_not_of("01") == std::string_view::npos;
}

void Settlements::finish(Command &command, std::string_view results) {
    sent_ -= results.size();
    for (const char result : results) {
        Settlement &settlement = *command.settlements.front();
        command.settlements.remove(settlement);
        const SettlementResult done = settlement.kind == SettlementKind::debt
                                          ? SettlementResult::charged
                                          : SettlementResult::returned;
        end(settlement, result == '1' ? done : SettlementResult::lost);
    }
    pipeline_.recycle(command);
}

void Settlements::lose(Command &command) {
    sent_ -= count_of(command);
    while (Settlement *settlement = command.settlements.front()) {
        command.settlements.remove(*settlement);
        end(*settlement, SettlementResult::lost);
    }
    pipeline_.recycle(command);
}

void Settlements::send_apart(Command &command, Time now) {
    SettlementList others = std::exchange(waiting_, SettlementList());
    wait_again(command);
    send(false, now);
    while (Settlement *settlement = others.front()) {
        others.remove(*settlement);
        waiting_.push_back(*settlement);
    }
}

void Settlements::wait_again(Command &command) {
    sent_ -= count_of(command);
    while (Settlement *settlement = command.settlements.front()) {
        command.settlements.remove(*settlement);
        waiting_.push_back(*settlement);
    }
    pipeline_.recycle(command);
}

void Settlements::take_waiting(const HashSlotSet &of, Settlements &from) {
    for (Settlement *next = from.waiting_.front(); next != nullptr;) {
        Settlement &settlement = *std::exchange(next, next->hook.next);
        if (of[settlement.hash_slot]) {
            from.waiting_.remove(settlement);
            waiting_.push_back(settlement);
        }
    }
}

HashSlotSet Settlements::hash_slots_of_waiting() const {
    HashSlotSet slots;
    for (const Settlement *one = waiting_.front(); one != nullptr; one = one->hook.next) {
        slots.set(one->hash_slot);
    }
    return slots;
}

size_t Settlements::count_of(const Command &command) {
    size_t count = 0;
    for (const Settlement *one = command.settlements.front(); one != nullptr;
         one = one->hook.next) {
        ++count;
    }
    return count;
}

void Settlements::end(Settlement &settlement, SettlementResult result) {
    count(settlement.counters, result);
    group_.settlements.give_back(settlement);
}

} // namespace redis_client
