#include "redis_client/session/settlements.hpp"

#include "redis_client/script/arguments.hpp"

#include "rate_limit/text/text_writer.hpp"

#include <array>
#include <utility>

namespace redis_client {

using rate_limit::RuleCounter;

namespace {

/// A run of the script is to stay below a millisecond.
constexpr size_t most_at_once = 64;
constexpr size_t most_at_once_of_entries = 8;

size_t longest_batch(const Settlement &first) {
    return rate_limit::traits_of(first.algorithm).keeps_each_unit ? most_at_once_of_entries
                                                                  : most_at_once;
}

bool can_share(const Settlement &one, const Settlement &other) {
    return one.kind == other.kind && one.algorithm == other.algorithm &&
           one.hash_slot == other.hash_slot;
}

/// Distributes a list over others by a digit of each settlement, and puts those together again.
template <size_t digits>
void sort_by(SettlementList &list, const auto &digit_of) {
    std::array<SettlementList, digits> of_digit;
    while (Settlement *settlement = list.front()) {
        list.remove(*settlement);
        of_digit[digit_of(*settlement)].push_back(*settlement);
    }
    for (SettlementList &some : of_digit) {
        list.append(some);
    }
}

/// Puts those beside each other that can share a command: a radix sort, since there may be as many
/// hash slots as settlements. It keeps the order of those that can share one.
void gather(SettlementList &list) {
    if (list.front() == list.back()) {
        return;
    }
    constexpr size_t half = 128; // of the digits of a hash slot
    static_assert(half * half == hash_slots);
    sort_by<rate_limit::all_algorithms.size() * settlement_kinds>(list, [](const Settlement &one) {
        return static_cast<size_t>(one.algorithm) * settlement_kinds +
               static_cast<size_t>(one.kind);
    });
    sort_by<half>(list, [](const Settlement &one) { return one.hash_slot % half; });
    sort_by<half>(list, [](const Settlement &one) { return one.hash_slot / half; });
}

/// Null counts nothing.
void count(rate_limit::RuleCounters *counters, uint64_t leased_units, RuleCounter result) {
    if (counters == nullptr) {
        return;
    }
    if (leased_units > 0) {
        counters->count(result == RuleCounter::settlements_returned
                            ? RuleCounter::lease_units_returned
                            : RuleCounter::lease_units_expired,
                        leased_units);
    } else {
        counters->count(result);
    }
}

uint64_t leased_units_of(const SettlementOrder &order) {
    return order.is_of_lease ? order.charge.quota.cost : 0;
}

} // namespace

void count_lost(const SettlementOrder &order) {
    count(order.counters, leased_units_of(order), RuleCounter::settlements_lost);
}

Settlements::~Settlements() {
    while (Settlement *settlement = waiting_.front()) {
        waiting_.remove(*settlement);
        end(*settlement, RuleCounter::settlements_lost);
    }
}

void Settlements::add(const SettlementOrder &order) {
    const Charge &charge = order.charge;
    Settlement *settlement = make(order.kind, charge,
                                  order.kind == SettlementKind::debt
                                      ? debt_arguments(charge.quota, order.aligned)
                                      : refund_arguments(charge.quota, charge.to_return()));
    if (settlement == nullptr) {
        count_lost(order);
        return;
    }
    settlement->counters = order.counters;
    settlement->leased_units = leased_units_of(order);
}

void Settlements::give_back(const Charge &charge) {
    (void)make(SettlementKind::refund, charge, refund_arguments(charge.quota, charge.to_return()));
}

/// Returns a settlement that waits, or null if there are too many or memory ran out.
Settlement *Settlements::make(SettlementKind kind, const Charge &charge,
                              const WireWords &arguments) {
    const bool has_room = group_.settlements.in_use() < group_.settings.max_pending;
    Settlement *settlement = has_room ? group_.settlements.take() : nullptr;
    if (settlement == nullptr) {
        return nullptr;
    }
    settlement->kind = kind;
    settlement->is_on_one_key = false;
    settlement->algorithm = charge.quota.algorithm;
    settlement->hash_slot = charge.hash_slot;
    settlement->arguments = arguments;
    settlement->calendar = charge.quota.calendar;
    rate_limit::append(settlement->redis_key_bytes.data(), charge.redis_key);
    settlement->redis_key = {settlement->redis_key_bytes.data(), charge.redis_key.size()};
    waiting_.push_back(*settlement);
    return settlement;
}

void Settlements::send(bool may_share, Time now) {
    if (!pipeline_.is_open()) {
        return;
    }
    // What has no room in the output waits on, so each is looked at once.
    SettlementList to_send = std::exchange(waiting_, SettlementList());
    if (may_share) {
        gather(to_send);
    }
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
        for (Settlement *next = to_send.front();
             next != nullptr && room > 0 && can_share(*first, *next); next = to_send.front()) {
            to_send.remove(*next);
            command->settlements.push_back(*next);
            --room;
        }
        sent_ += count_of(*command);
        if (!pipeline_.send(*command, now)) {
            wait_again(*command);
        }
    }
}

bool Settlements::is_answer(const Command &command, std::string_view answer) {
    const size_t count = count_of(command);
    const std::string_view results = answer.substr(0, count);
    const bool has_failed = results.find('0') != std::string_view::npos;
    return results.size() == count && results.find_first_not_of("01") == std::string_view::npos &&
           (has_failed || answer.size() == count);
}

std::string_view Settlements::failure_in(const Command &command, std::string_view answer) {
    return answer.substr(count_of(command));
}

void Settlements::finish(Command &command, std::string_view answer) {
    const std::string_view results = answer.substr(0, count_of(command));
    sent_ -= results.size();
    for (const char result : results) {
        Settlement &settlement = *command.settlements.front();
        command.settlements.remove(settlement);
        const RuleCounter done = settlement.kind == SettlementKind::debt
                                     ? RuleCounter::settlements_charged
                                     : RuleCounter::settlements_returned;
        end(settlement, result == '1' ? done : RuleCounter::settlements_lost);
    }
    pipeline_.recycle(command);
}

void Settlements::lose(Command &command) {
    sent_ -= count_of(command);
    while (Settlement *settlement = command.settlements.front()) {
        command.settlements.remove(*settlement);
        end(*settlement, RuleCounter::settlements_lost);
    }
    pipeline_.recycle(command);
}

void Settlements::send_apart(Command &command, Time now) {
    for (Settlement *one = command.settlements.front(); one != nullptr; one = one->hook.next) {
        one->is_on_one_key = true;
    }
    SettlementList others = std::exchange(waiting_, SettlementList());
    wait_again(command);
    send(false, now);
    waiting_.append(others);
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

void Settlements::end(Settlement &settlement, RuleCounter result) {
    count(settlement.counters, settlement.leased_units, result);
    group_.settlements.give_back(settlement);
}

} // namespace redis_client
