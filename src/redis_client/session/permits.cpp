#include "redis_client/session/permits.hpp"

#include "rate_limit/text/text_writer.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace redis_client {

namespace {

std::string new_id(const RandomBytes &random_bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    unsigned char random[12];
    random_bytes(random);
    std::string id;
    for (const unsigned char byte : random) {
        id += digits[byte >> 4];
        id += digits[byte & 15];
    }
    return id;
}

} // namespace

Permits::Permits(ObjectPool<Permit> &pool, const RandomBytes &random_bytes)
    : id_(new_id(random_bytes)), pool_(pool) {}

Permit *Permits::make(std::string_view redis_key, uint64_t units,
                      std::chrono::milliseconds window) {
    Permit *permit = pool_.take();
    if (permit == nullptr) {
        return nullptr;
    }
    permit->home = this;
    permit->window = window;
    rate_limit::append(permit->redis_key_bytes.data(), redis_key);
    permit->redis_key = {permit->redis_key_bytes.data(), redis_key.size()};

    char *at = rate_limit::append(permit->name_bytes.data(), id_);
    char *const end = permit->name_bytes.data() + permit->name_bytes.size();
    *at++ = '-';
    at = std::to_chars(at, end, ++made_, 16).ptr;
    *at++ = ' ';
    at = std::to_chars(at, end, units).ptr;
    permit->name = {permit->name_bytes.data(), static_cast<size_t>(at - permit->name_bytes.data())};
    shortest_window_ = std::min(shortest_window_, window);
    return permit;
}

void Permits::adopt(Permit &permit) {
    if (permit.state == Permit::State::held) {
        permit.home->held_.remove(permit);
        held_.push_back(permit);
        permit.is_doubtful = true;
    } else if (permit.state == Permit::State::returning) {
        permit.home->returning_.remove(permit);
        returning_.push_back(permit);
    }
    has_adopted_ = has_adopted_ || permit.state != Permit::State::asked;
    permit.home = this;
    shortest_window_ = std::min(shortest_window_, permit.window);
}

void Permits::adopt_all(const HashSlotSet &of, Permits &from) {
    for (PermitList *list : {&from.held_, &from.returning_}) {
        for (Permit *permit = list->front(); permit != nullptr;) {
            Permit &one = *std::exchange(permit, permit->hook.next);
            if (of[one.hash_slot]) {
                adopt(one);
            }
        }
    }
}

HashSlotSet Permits::hash_slots() const {
    HashSlotSet all;
    for (const PermitList *list : {&held_, &returning_}) {
        for (const Permit *permit = list->front(); permit != nullptr; permit = permit->hook.next) {
            all.set(permit->hash_slot);
        }
    }
    return all;
}

void Permits::hold(Permit &permit, Time asked) {
    permit.state = Permit::State::held;
    permit.renewed = asked;
    held_.push_back(permit);
}

void Permits::give_back(Permit &permit, Time now) {
    if (permit.state == Permit::State::held) {
        held_.remove(permit);
    } else {
        permit.renewed = now; // at the latest, since its check may still be on its way
    }
    permit.state = Permit::State::returning;
    returning_.push_back(permit);
}

void Permits::drop(Permit &permit) {
    if (permit.state == Permit::State::held) {
        held_.remove(permit);
    } else if (permit.state == Permit::State::returning) {
        returning_.remove(permit);
    }
    pool_.give_back(permit);
}

void Permits::doubt_renewals() {
    for (Permit *permit = held_.front(); permit != nullptr; permit = permit->hook.next) {
        permit->is_doubtful = true;
    }
}

void Permits::doubt_renewal(uint64_t number) {
    for (Permit *permit = held_.front(); permit != nullptr; permit = permit->hook.next) {
        if (permit->renewal == number) {
            permit->is_doubtful = true;
            has_failed_renewal_ = true;
        }
    }
}

std::optional<Time> Permits::next_look() const {
    if (empty()) {
        return std::nullopt;
    }
    // Not at once, since two nodes may each say that the other one has a key.
    constexpr Time after_adoption{100};
    constexpr Time after_failure{1000}; // a renewal may fail for long, and have many permits
    Time wait = std::max<Time>(shortest_window_ / 6, Time{1});
    if (has_failed_renewal_) {
        wait = std::min(wait, after_failure);
    }
    if (has_adopted_) {
        wait = std::min(wait, after_adoption);
    }
    return last_look_ + wait;
}

void Permits::looked(Time now) {
    last_look_ = now;
    has_adopted_ = has_failed_renewal_ = false;
}

} // namespace redis_client
