// The background commands of a session: refunds, and the release and renewal of permits.
#include "session.hpp"

#include "commands.hpp"

#include <array>
#include <utility>

namespace redis_client {

namespace {

constexpr size_t most_renewed_at_once = 64; // a call of the script has to stay short

} // namespace

/// After an answer: a charge that was made holds its permit, if its request is still there. Redis
/// knows none of the other permits.
void Session::settle_permits(const Command &check, Time now) {
    for (Charge &charge : check.charges) {
        if (charge.permit == nullptr) {
            continue;
        }
        if (charge.is_charged && charge.quota.charges()) {
            permits_.hold(*charge.permit, check.sent);
            if (check.is_handed_over) {
                release(*std::exchange(charge.permit, nullptr), now);
            }
        } else {
            permits_.drop(*std::exchange(charge.permit, nullptr));
        }
    }
}

/// Redis answered a command with an error.
void Session::note_refusal(const Command &command) {
    if (command.kind == Command::Kind::release &&
        !command.permit->is_unlikely) { // it will be tried again
        refuses_background_commands_ = true;
    }
    for (const Charge &charge : command.charges) {
        if (charge.permit != nullptr) {
            charge.permit->is_unlikely = true; // unless the script was stopped midway
        }
    }
}

/// Gives back the permits of a check, since nobody will hear whether it took them.
void Session::leave_permits(const Command &check, Time now) {
    for (Charge &charge : check.charges) {
        if (charge.permit == nullptr) {
            continue;
        }
        if (check.is_sent) {
            release(*charge.permit, now);
        } else {
            permits_.drop(*charge.permit);
        }
        charge.permit = nullptr;
    }
}

void Session::refund(std::span<Charge> charges, Time now) {
    for (Charge &charge : charges) {
        if (!charge.is_charged) {
            continue;
        }
        charge.is_charged = false;
        charge.verdict = rate_limit::verdict_after_refund(charge.quota, charge.verdict);
        if (charge.permit != nullptr) {
            release(*std::exchange(charge.permit, nullptr), now);
        } else if (charge.quota.charges() && state_ == State::ready) {
            send_refund(charge, now);
        }
    }
}

void Session::send_refund(const Charge &charge, Time now) {
    Command *command = new_command(Command::Kind::refund);
    if (command == nullptr) {
        return;
    }
    if (!write_refund(output_, group_.scripts.refund(charge.quota.algorithm), charge)) {
        recycle(*command);
        return;
    }
    ++refunds_;
    queue(*command, now);
}

void Session::release(Permit &permit, Time now) {
    permit.home->give_back(permit, now);
    if (state_ == State::ready) {
        send_release(permit, now);
    }
}

void Session::send_release(Permit &permit, Time now) {
    Command *command = new_command(Command::Kind::release);
    if (command == nullptr) {
        return; // tend_permits() will try again
    }
    command->permit = &permit;
    permit.is_release_sent = send(*command, now);
    if (!permit.is_release_sent) {
        recycle(*command);
    }
}

/// Releases the permits whose release is not on its way, and renews those that are due.
void Session::tend_permits(Time now) {
    permits_.looked(now);
    for (Permit *permit = permits_.returning().front(); permit != nullptr;) {
        Permit &returning = *permit;
        permit = returning.hook.next;
        if (returning.is_release_sent) {
            continue;
        }
        if (Permits::has_ended(returning, now)) {
            permits_.drop(returning);
        } else if (state_ == State::ready) {
            send_release(returning, now);
        }
    }
    if (state_ == State::ready) {
        renew_permits(now);
    }
}

void Session::renew_permits(Time now) {
    std::array<Permit *, most_renewed_at_once> due;
    size_t count = 0;
    const auto send = [&] {
        if (count > 0) {
            send_renewal({due.data(), count}, now);
            count = 0;
        }
    };
    for (Permit *permit = permits_.held().front(); permit != nullptr; permit = permit->hook.next) {
        if (!Permits::is_to_renew(*permit, now)) {
            continue;
        }
        if (count > 0 && due[0]->hash_slot != permit->hash_slot) {
            send();
        }
        permit->renewed = now;
        permit->is_doubtful = false;
        due[count++] = permit;
        if (count == due.size()) {
            send();
        }
    }
    send();
}

void Session::send_renewal(std::span<Permit *const> permits, Time now) {
    const uint64_t number = ++group_.renewals;
    for (Permit *permit : permits) {
        permit->renewal = number;
    }
    Command *command = new_command(Command::Kind::renewal);
    if (command == nullptr) {
        permits_.doubt_renewal(number);
        return;
    }
    command->renewal = number;
    if (!write_renewal(output_, group_.scripts.renew(), permits)) {
        finish_background_command(*command, false);
        return;
    }
    command->hash_slot = permits.front()->hash_slot;
    queue(*command, now);
}

/// Sends a renewal of permits that another session holds. That session does not hear what becomes
/// of it, and tries again soon.
void Session::resend_renewal(Command &renewal, Session &from, Time now) {
    std::array<Permit *, most_renewed_at_once> due;
    size_t count = 0;
    for (Permit *permit = from.permits_.held().front(); permit != nullptr;
         permit = permit->hook.next) {
        const bool is_of_it =
            permit->renewal == renewal.renewal && permit->hash_slot == renewal.hash_slot;
        if (is_of_it && count < due.size()) {
            due[count++] = permit;
        }
    }
    from.permits_.doubt_renewal(renewal.renewal);
    const std::span<Permit *const> permits(due.data(), count);
    if (count > 0 && state_ == State::ready && send_asking(now) &&
        write_renewal(output_, group_.scripts.renew(), permits)) {
        queue(renewal, now);
    } else {
        finish_background_command(renewal, false);
    }
}

/// When a worker ends, the session that has the permit by now may be gone before this one.
void Session::finish_background_command(Command &command, bool done) {
    if (command.kind == Command::Kind::refund) {
        --refunds_;
    } else if (command.kind == Command::Kind::release) {
        command.permit->is_release_sent = false;
        if (done || (command.permit->is_unlikely && has(*command.permit))) {
            command.permit->home->drop(*command.permit);
        }
    } else if (command.kind == Command::Kind::renewal && !done) {
        permits_.doubt_renewal(command.renewal);
    }
    recycle(command);
}

} // namespace redis_client
