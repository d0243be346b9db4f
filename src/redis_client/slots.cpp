#include "slots.hpp"

#include "../rate_limit/text.hpp"

#include <openssl/rand.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace redis_client {

namespace {

std::string random_id() {
    constexpr std::string_view digits = "0123456789abcdef";
    unsigned char random[12];
    if (RAND_bytes(random, sizeof(random)) != 1) {
        // then at least no other worker of this host has it
        const auto address = reinterpret_cast<uintptr_t>(&random);
        const auto time = std::chrono::system_clock::now().time_since_epoch().count();
        return std::to_string(address) + "-" + std::to_string(time);
    }
    std::string id;
    for (const unsigned char byte : random) {
        id += digits[byte >> 4];
        id += digits[byte & 15];
    }
    return id;
}

} // namespace

Slots::Slots(ObjectPool<Slot> &pool) : id_(random_id()), pool_(pool) {}

Slot *Slots::make(std::string_view redis_key, uint64_t units, std::chrono::milliseconds window) {
    Slot *slot = pool_.take();
    if (slot == nullptr) {
        return nullptr;
    }
    slot->state = Slot::State::asked;
    slot->home = this;
    slot->hash_slot = 0;
    slot->is_release_sent = false;
    slot->is_doubtful = false;
    slot->renewal = 0;
    slot->is_unlikely = false;
    slot->window = window;
    rate_limit::append(slot->redis_key_bytes.data(), redis_key);
    slot->redis_key = {slot->redis_key_bytes.data(), redis_key.size()};

    char *at = rate_limit::append(slot->name_bytes.data(), id_);
    char *const end = slot->name_bytes.data() + slot->name_bytes.size();
    *at++ = '-';
    at = std::to_chars(at, end, ++made_, 16).ptr;
    *at++ = ' ';
    at = std::to_chars(at, end, units).ptr;
    slot->name = {slot->name_bytes.data(), static_cast<size_t>(at - slot->name_bytes.data())};
    shortest_window_ = std::min(shortest_window_, window);
    return slot;
}

void Slots::adopt(Slot &slot) {
    if (slot.state == Slot::State::held) {
        slot.home->held_.remove(slot);
        held_.push_back(slot);
        slot.is_doubtful = true;
    } else if (slot.state == Slot::State::returning) {
        slot.home->returning_.remove(slot);
        returning_.push_back(slot);
    }
    has_adopted_ = has_adopted_ || slot.state != Slot::State::asked;
    slot.home = this;
    shortest_window_ = std::min(shortest_window_, slot.window);
}

void Slots::adopt_all(const HashSlotSet &of, Slots &from) {
    for (SlotList *list : {&from.held_, &from.returning_}) {
        for (Slot *slot = list->front(); slot != nullptr;) {
            Slot &one = *std::exchange(slot, slot->hook.next);
            if (of[one.hash_slot]) {
                adopt(one);
            }
        }
    }
}

HashSlotSet Slots::hash_slots() const {
    HashSlotSet all;
    for (const SlotList *list : {&held_, &returning_}) {
        for (const Slot *slot = list->front(); slot != nullptr; slot = slot->hook.next) {
            all.set(slot->hash_slot);
        }
    }
    return all;
}

void Slots::hold(Slot &slot, Time asked) {
    slot.state = Slot::State::held;
    slot.renewed = asked;
    held_.push_back(slot);
}

void Slots::give_back(Slot &slot, Time now) {
    if (slot.state == Slot::State::held) {
        held_.remove(slot);
    } else {
        slot.renewed = now; // at the latest: its check may still be on its way
    }
    slot.state = Slot::State::returning;
    returning_.push_back(slot);
}

void Slots::drop(Slot &slot) {
    if (slot.state == Slot::State::held) {
        held_.remove(slot);
    } else if (slot.state == Slot::State::returning) {
        returning_.remove(slot);
    }
    pool_.give_back(slot);
}

void Slots::doubt_renewals() {
    for (Slot *slot = held_.front(); slot != nullptr; slot = slot->hook.next) {
        slot->is_doubtful = true;
    }
}

void Slots::doubt_renewal(uint64_t number) {
    for (Slot *slot = held_.front(); slot != nullptr; slot = slot->hook.next) {
        if (slot->renewal == number) {
            slot->is_doubtful = true;
            has_failed_renewal_ = true;
        }
    }
}

std::optional<Time> Slots::next_look() const {
    if (empty()) {
        return std::nullopt;
    }
    // Not at once: nodes that each say that the other one has a key hand its slots to and fro.
    constexpr Time after_adoption{100};
    constexpr Time after_failure{1000}; // what fails may fail for long, and be of many slots
    Time wait = std::max<Time>(shortest_window_ / 6, Time{1});
    if (has_failed_renewal_) {
        wait = std::min(wait, after_failure);
    }
    if (has_adopted_) {
        wait = std::min(wait, after_adoption);
    }
    return last_look_ + wait;
}

void Slots::looked(Time now) {
    last_look_ = now;
    has_adopted_ = has_failed_renewal_ = false;
}

} // namespace redis_client
