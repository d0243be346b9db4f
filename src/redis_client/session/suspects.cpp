#include "redis_client/session/suspects.hpp"

#include "redis_client/script/answer.hpp"
#include "redis_client/wire/hash_slot.hpp"

#include <algorithm>
#include <functional>
#include <string_view>

namespace redis_client {

namespace {

constexpr uint64_t writes = 0;

/// The hash of a key is hardly ever so small a number. A charge has a hash slot only if it is asked
/// of a cluster; a node of one says so to others, too.
uint64_t number_of_slot(const Charge &charge) {
    return hash_slot(charge.redis_key);
}

uint64_t number_of_key(const Charge &charge) {
    return std::hash<std::string_view>{}(charge.redis_key);
}

/// Calendars of one name have the same windows.
uint64_t number_of_calendar(const Charge &charge) {
    return std::hash<std::string_view>{}(charge.quota.calendar->name());
}

bool has_written(const Charge &charge) {
    return charge.is_charged && charge.quota.charges();
}

} // namespace

void SuspectSet::add(uint64_t one) {
    auto *const end = numbers_.begin() + size_;
    if (std::find(numbers_.begin(), end, one) != end) {
        return;
    }
    if (size_ == numbers_.size()) {
        has_unknown_ = true;
    } else {
        numbers_[size_++] = one;
    }
}

void SuspectSet::remove(uint64_t one) {
    auto *const end = numbers_.begin() + size_;
    auto *const found = std::find(numbers_.begin(), end, one);
    if (found != end) {
        *found = numbers_[--size_];
    }
}

void Suspects::note_failure(const Command &check, const Problem &problem) {
    SuspectSet &set = of(problem.cause);
    if (problem.cause == Cause::redis) {
        if (is_error_of_writes(problem.redis_said)) {
            set.add(writes);
        }
        return;
    }
    if (check.charges.empty()) { // its request is gone
        set.add_unknown();
    }
    const bool is_of_slot = is_error_of_hash_slot(problem.redis_said);
    for (const Charge &charge : check.charges) {
        if (problem.cause == Cause::keys) {
            set.add(is_of_slot ? number_of_slot(charge) : number_of_key(charge));
        } else if (charge.quota.calendar != nullptr) {
            set.add(number_of_calendar(charge));
        }
    }
}

void Suspects::note_verdict(const Command &check) {
    if (has(Cause::redis) && std::ranges::any_of(check.charges, has_written)) {
        of(Cause::redis).remove(writes);
    }
    for (const Charge &charge : check.charges) {
        if (has(Cause::keys)) {
            of(Cause::keys).remove(number_of_key(charge));
            of(Cause::keys).remove(number_of_slot(charge));
        }
        if (has(Cause::clocks) && charge.quota.calendar != nullptr) {
            of(Cause::clocks).remove(number_of_calendar(charge));
        }
    }
}

} // namespace redis_client
