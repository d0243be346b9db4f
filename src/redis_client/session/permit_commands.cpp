#include "redis_client/session/permit_commands.hpp"

#include "redis_client/script/commands.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace redis_client {

namespace {

constexpr size_t most_renewed_at_once = 64; // a call of the script has to stay short
using DuePermits = std::array<Permit *, most_renewed_at_once>;

bool has_same_key(const Permit &one, const Permit &other) {
    return one.redis_key == other.redis_key;
}

/// Finds the permits of a renewal that are still held. Returns how many there are.
size_t find_renewed(Permits &permits, const Command &renewal, DuePermits &out) {
    size_t count = 0;
    for (Permit *permit = permits.held().front(); permit != nullptr; permit = permit->hook.next) {
        const bool is_of_it =
            permit->renewal == renewal.renewal && permit->hash_slot == renewal.hash_slot;
        if (is_of_it && count < out.size()) {
            out[count++] = permit;
        }
    }
    return count;
}

} // namespace

bool PermitCommands::make_permits(std::span<Charge> charges) {
    for (Charge &charge : charges) {
        charge.permit = nullptr;
    }
    for (Charge &charge : charges) {
        if (rate_limit::holds_permits(charge.quota.algorithm)) {
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

void PermitCommands::keep_permits(const Command &check, Time now) {
    for (Charge &charge : check.charges) {
        if (charge.permit == nullptr) {
            continue;
        }
        if (charge.is_charged && charge.quota.charges()) {
            permits_.hold(*charge.permit, check.sent);
            if (check.is_abandoned) {
                release(*std::exchange(charge.permit, nullptr), now);
            }
        } else {
            permits_.drop(*std::exchange(charge.permit, nullptr));
        }
    }
}

void PermitCommands::note_refusal(const Command &command) {
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

void PermitCommands::give_back_permits(const Command &check, Time now) {
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

void PermitCommands::release(Permit &permit, Time now) {
    permit.home->give_back(permit, now);
    if (pipeline_.is_open()) {
        send_release(permit, now);
    }
}

void PermitCommands::send_release(Permit &permit, Time now) {
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

void PermitCommands::tend(bool may_share, Time now) {
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
        renew_permits(may_share, now);
    }
}

void PermitCommands::renew_permits(bool may_share, Time now) {
    DuePermits due;
    size_t count = 0;
    for (Permit *permit = permits_.held().front(); permit != nullptr; permit = permit->hook.next) {
        if (!Permits::is_to_renew(*permit, now)) {
            continue;
        }
        permit->renewed = now;
        permit->is_doubtful = false;
        due[count++] = permit;
        if (count == due.size()) {
            send_renewals({due.data(), std::exchange(count, 0)}, may_share, now);
        }
    }
    send_renewals({due.data(), count}, may_share, now);
}

void PermitCommands::send_renewals(std::span<Permit *> permits, bool may_share, Time now) {
    if (!may_share) {
        std::ranges::sort(permits, {}, &Permit::redis_key);
    }
    while (!permits.empty()) {
        const Permit &first = *permits.front();
        const auto end = std::ranges::find_if_not(permits, [&](const Permit *other) {
            return may_share ? other->hash_slot == first.hash_slot : has_same_key(*other, first);
        });
        const auto count = static_cast<size_t>(end - permits.begin());
        send_renewal(permits.first(count), now);
        permits = permits.subspan(count);
    }
}

void PermitCommands::send_renewal(std::span<Permit *const> permits, Time now) {
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
    const Permit &first = *permits.front();
    command->hash_slot = first.hash_slot;
    command->renews_several_keys = !std::ranges::all_of(
        permits, [&](const Permit *other) { return has_same_key(*other, first); });
    pipeline_.queue(*command, now);
}

void PermitCommands::send_apart(Command &renewal, Time now) {
    DuePermits due;
    const size_t count = find_renewed(permits_, renewal, due);
    pipeline_.recycle(renewal);
    send_renewals({due.data(), count}, false, now);
}

void PermitCommands::resend_renewal(Command &renewal, PermitCommands &from, Time now) {
    DuePermits due;
    const size_t count = find_renewed(from.permits_, renewal, due);
    from.permits_.doubt_renewal(renewal.renewal);
    if (count > 0 && pipeline_.is_open() && pipeline_.send_asking(now) &&
        write_renewal(pipeline_.output(), group_.scripts.renew(), {due.data(), count})) {
        pipeline_.queue(renewal, now);
    } else {
        finish(renewal, false);
    }
}

/// When a worker ends, the session that has the permit by now may be gone before this one.
void PermitCommands::finish(Command &command, bool done) {
    if (command.kind == Command::Kind::release) {
        command.permit->is_release_sent = false;
        if (done || (command.permit->is_unlikely && has(*command.permit))) {
            command.permit->home->drop(*command.permit);
        }
    } else if (command.kind == Command::Kind::renewal && !done) {
        permits_.doubt_renewal(command.renewal);
    }
    pipeline_.recycle(command);
}

void PermitCommands::disconnected() {
    permits_.doubt_renewals();
}

} // namespace redis_client
