// What a session tells Redis after its checks: refunds, and the slots of requests in flight.
#include "session.hpp"

#include "commands.hpp"

#include <array>
#include <utility>

namespace redis_client {

namespace {

constexpr size_t most_renewed_at_once = 64; // a script run is to stay short

} // namespace

/// What was charged holds its slot, while there is a request to hold it; of the rest Redis knows
/// none.
void Session::settle_slots(const Call &check, Time now) {
    for (Charge &charge : check.charges) {
        if (charge.slot == nullptr) {
            continue;
        }
        if (charge.is_charged && charge.quota.charges()) {
            slots_.hold(*charge.slot, check.sent);
            if (check.is_handed_over) {
                release(*std::exchange(charge.slot, nullptr), now);
            }
        } else {
            slots_.drop(*std::exchange(charge.slot, nullptr));
        }
    }
}

/// Redis answered with an error.
void Session::note_refusal(const Call &call) {
    if (call.kind == Call::Kind::release && !call.slot->is_unlikely) { // it is tried again
        refuses_errands_ = true;
    }
    for (const Charge &charge : call.charges) {
        if (charge.slot != nullptr) {
            charge.slot->is_unlikely = true; // unless the script was stopped midway
        }
    }
}

/// Nobody will hear whether the check took its slots.
void Session::leave_slots(const Call &check, Time now) {
    for (Charge &charge : check.charges) {
        if (charge.slot == nullptr) {
            continue;
        }
        if (check.is_sent) {
            release(*charge.slot, now);
        } else {
            slots_.drop(*charge.slot);
        }
        charge.slot = nullptr;
    }
}

void Session::refund(std::span<Charge> charges, Time now) {
    for (Charge &charge : charges) {
        if (!charge.is_charged) {
            continue;
        }
        charge.is_charged = false;
        charge.verdict = rate_limit::verdict_after_refund(charge.quota, charge.verdict);
        if (charge.slot != nullptr) {
            release(*std::exchange(charge.slot, nullptr), now);
        } else if (charge.quota.charges() && state_ == State::ready) {
            send_refund(charge, now);
        }
    }
}

void Session::send_refund(const Charge &charge, Time now) {
    Call *errand = new_call(Call::Kind::refund);
    if (errand == nullptr) {
        return;
    }
    if (!write_refund(output_, group_.scripts.refund(charge.quota.algorithm), charge)) {
        recycle(*errand);
        return;
    }
    ++refunds_;
    queue(*errand, now);
}

void Session::release(Slot &slot, Time now) {
    slot.home->give_back(slot, now);
    if (state_ == State::ready) {
        send_release(slot, now);
    }
}

void Session::send_release(Slot &slot, Time now) {
    Call *errand = new_call(Call::Kind::release);
    if (errand == nullptr) {
        return; // the next look at the slots tries again
    }
    errand->slot = &slot;
    slot.is_release_sent = send(*errand, now);
    if (!slot.is_release_sent) {
        recycle(*errand);
    }
}

/// Slots whose release is not on its way, and those to be renewed.
void Session::tend_slots(Time now) {
    slots_.looked(now);
    for (Slot *slot = slots_.returning().front(); slot != nullptr;) {
        Slot &returning = *slot;
        slot = returning.hook.next;
        if (returning.is_release_sent) {
            continue;
        }
        if (Slots::has_ended(returning, now)) {
            slots_.drop(returning);
        } else if (state_ == State::ready) {
            send_release(returning, now);
        }
    }
    if (state_ == State::ready) {
        renew_slots(now);
    }
}

void Session::renew_slots(Time now) {
    std::array<Slot *, most_renewed_at_once> due;
    size_t count = 0;
    const auto send = [&] {
        if (count > 0) {
            send_renewal({due.data(), count}, now);
            count = 0;
        }
    };
    for (Slot *slot = slots_.held().front(); slot != nullptr; slot = slot->hook.next) {
        if (!Slots::is_to_renew(*slot, now)) {
            continue;
        }
        if (count > 0 && due[0]->hash_slot != slot->hash_slot) {
            send();
        }
        slot->renewed = now;
        slot->is_doubtful = false;
        due[count++] = slot;
        if (count == due.size()) {
            send();
        }
    }
    send();
}

void Session::send_renewal(std::span<Slot *const> slots, Time now) {
    const uint64_t number = ++group_.renewals;
    for (Slot *slot : slots) {
        slot->renewal = number;
    }
    Call *errand = new_call(Call::Kind::renewal);
    if (errand == nullptr) {
        slots_.doubt_renewal(number);
        return;
    }
    errand->renewal = number;
    if (!write_renewal(output_, group_.scripts.renew(), slots)) {
        finish_errand(*errand, false);
        return;
    }
    errand->hash_slot = slots.front()->hash_slot;
    queue(*errand, now);
}

/// Another session's, whose slots are still held there. That one does not hear what becomes of it,
/// and tries again soon.
void Session::resend_renewal(Call &renewal, Session &from, Time now) {
    std::array<Slot *, most_renewed_at_once> due;
    size_t count = 0;
    for (Slot *slot = from.slots_.held().front(); slot != nullptr; slot = slot->hook.next) {
        const bool is_of_it =
            slot->renewal == renewal.renewal && slot->hash_slot == renewal.hash_slot;
        if (is_of_it && count < due.size()) {
            due[count++] = slot;
        }
    }
    from.slots_.doubt_renewal(renewal.renewal);
    const std::span<Slot *const> slots(due.data(), count);
    if (count > 0 && state_ == State::ready && send_asking(now) &&
        write_renewal(output_, group_.scripts.renew(), slots)) {
        queue(renewal, now);
    } else {
        finish_errand(renewal, false);
    }
}

/// At the end of a worker the session that has the slot by now may be gone before this one.
void Session::finish_errand(Call &errand, bool done) {
    if (errand.kind == Call::Kind::refund) {
        --refunds_;
    } else if (errand.kind == Call::Kind::release) {
        errand.slot->is_release_sent = false;
        if (done || (errand.slot->is_unlikely && has(*errand.slot))) {
            errand.slot->home->drop(*errand.slot);
        }
    } else if (errand.kind == Call::Kind::renewal && !done) {
        slots_.doubt_renewal(errand.renewal);
    }
    recycle(errand);
}

} // namespace redis_client
