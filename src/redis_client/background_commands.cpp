#include "background_commands.hpp"

#include "commands.hpp"

#include <array>
#include <utility>

namespace redis_client {

namespace {

constexpr size_t most_renewed_at_once = 64; // a call of the script has to stay short

} // namespace

bool BackgroundCommands::make_permits(std::span<Charge> charges) {
    for (Charge &charge : charges) {
        charge.permit = nullptr;
    }
    for (Charge &charge : charges) {
        if (charge.quota.algorithm == rate_limit::Algorithm::concurrency) {
            charge.permit =
                permits_.make(charge.redis_key, charge.quota.to_charge(), charge.quota.window);
            if (charge.permit == nullptr) {
                return false;
            }
            charge.permit->hash_slot = charge.hash_slot;
        }
    }
    return true;
}

void BackgroundCommands::settle(const Command &check, Time now) {
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

void BackgroundCommands::note_refusal(const Command &command) {
    if (command.kind == Command::Kind::release &&
        !command.permit->is_unlikely) { // it will be tried again
        is_refused_ = true;
    }
    for (const Charge &charge : command.charges) {
        if (charge.permit != nullptr) {
            charge.permit->is_unlikely = true; // unless the script was stopped midway
        }
    }
}

void BackgroundCommands::leave(const Command &check, Time now) {
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

bool BackgroundCommands::refund(std::span<Charge> charges, Time now) {
    bool is_sent = true;
    for (Charge &charge : charges) {
        if (!charge.is_charged) {
            continue;
        }
        charge.is_charged = false;
        charge.verdict = rate_limit::verdict_after_refund(charge.quota, charge.verdict);
        if (charge.permit != nullptr) {
            release(*std::exchange(charge.permit, nullptr), now);
        } else if (charge.quota.charges()) {
            is_sent = send_refund(charge, now) && is_sent;
        }
    }
    return is_sent;
}

bool BackgroundCommands::send_refund(const Charge &charge, Time now) {
    Command *command = pipeline_.is_open() ? pipeline_.new_command(Command::Kind::refund) : nullptr;
    if (command == nullptr) {
        return false;
    }
    if (!write_refund(pipeline_.output(), group_.scripts.refund(charge.quota.algorithm), charge)) {
        pipeline_.recycle(*command);
        return false;
    }
    ++refunds_;
    pipeline_.queue(*command, now);
    return true;
}

void BackgroundCommands::release(Permit &permit, Time now) {
    permit.home->give_back(permit, now);
    if (pipeline_.is_open()) {
        send_release(permit, now);
    }
}

void BackgroundCommands::send_release(Permit &permit, Time now) {
    Command *command = pipeline_.new_command(Command::Kind::release);
    if (command == nullptr) {
        return; // tend() will try again
    }
    command->permit = &permit;
    permit.is_release_sent = pipeline_.send(*command, now);
    if (!permit.is_release_sent) {
        pipeline_.recycle(*command);
    }
}

void BackgroundCommands::tend(Time now) {
    permits_.looked(now);
    for (Permit *permit = permits_.returning().front(); permit != nullptr;) {
        Permit &returning = *permit;
        permit = returning.hook.next;
        if (returning.is_release_sent) {
            continue;
        }
        if (Permits::has_ended(returning, now)) {
            permits_.drop(returning);
        } else if (pipeline_.is_open()) {
            send_release(returning, now);
        }
    }
    if (pipeline_.is_open()) {
        renew_permits(now);
    }
}

void BackgroundCommands::renew_permits(Time now) {
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

void BackgroundCommands::send_renewal(std::span<Permit *const> permits, Time now) {
    const uint64_t number = ++group_.renewals;
    for (Permit *permit : permits) {
        permit->renewal = number;
    }
    Command *command = pipeline_.new_command(Command::Kind::renewal);
    if (command == nullptr) {
        permits_.doubt_renewal(number);
        return;
    }
    command->renewal = number;
    if (!write_renewal(pipeline_.output(), group_.scripts.renew(), permits)) {
        finish(*command, false);
        return;
    }
    command->hash_slot = permits.front()->hash_slot;
    pipeline_.queue(*command, now);
}

void BackgroundCommands::resend_renewal(Command &renewal, BackgroundCommands &from, Time now) {
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
    if (count > 0 && pipeline_.is_open() && pipeline_.send_asking(now) &&
        write_renewal(pipeline_.output(), group_.scripts.renew(), permits)) {
        pipeline_.queue(renewal, now);
    } else {
        finish(renewal, false);
    }
}

/// When a worker ends, the session that has the permit by now may be gone before this one.
void BackgroundCommands::finish(Command &command, bool done) {
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
    pipeline_.recycle(command);
}

void BackgroundCommands::disconnected() {
    permits_.doubt_renewals();
}

} // namespace redis_client
