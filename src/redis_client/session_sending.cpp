// How the checks of a session go out, in batches, and go out again if Redis did not run the script.
#include "session.hpp"

#include "answer.hpp"
#include "commands.hpp"

#include <utility>

namespace redis_client {

/// Makes the permits that the charges ask for. Returns false if memory ran out.
bool Session::prepare(Command &check, std::span<Charge> charges) {
    check.charges = charges;
    check.reply_size = answer_size(charges);
    for (Charge &charge : charges) {
        charge.is_charged = false;
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

void Session::send_waiting() {
    for (Command *check = waiting_.front(); check != nullptr; check = check->waiting_hook.next) {
        to_send_.add(*check);
    }
}

void Session::flush(Time now) {
    while (!to_send_.empty()) {
        send_or_fail(to_send_.take_batch(group_.scripts), now);
    }
}

void Session::send_or_fail(Command &first, Time now) {
    if (!send(first, now)) {
        note_problem("out of memory");
        fail(first, Failure::overload, now);
    }
}

/// Sends a batch of checks, or a release. Returns false if memory ran out; then nothing was sent.
bool Session::send(Command &first, Time now) {
    const Sending sending = first.sent_in_full ? Sending::in_full : Sending::by_name;
    bool written = false;
    if (first.needs_asking && !send_asking(now)) {
        return false;
    }
    if (first.kind == Command::Kind::release) {
        const Script &script = group_.scripts.refund(rate_limit::Algorithm::concurrency);
        written = write_release(output_, script, sending, *first.permit);
    } else {
        const ScriptShape shape = shape_of(first.charges);
        const Script &script = first.next_in_batch != nullptr ? *group_.scripts.batch(shape)
                                                              : group_.scripts.check(shape);
        written = write_checks(output_, script, sending, first);
    }
    if (written) {
        queue(first, now);
    }
    return written;
}

bool Session::send_asking(Time now) {
    Command *asking = new_command(Command::Kind::asking);
    if (asking == nullptr) {
        return false;
    }
    if (!write_command(output_, {"ASKING"})) {
        recycle(*asking);
        return false;
    }
    queue(*asking, now);
    return true;
}

/// Redis does not know the script, so it is sent along with the checks, or with the release.
void Session::send_in_full(Command &first, Time now) {
    if (Command *wanted = keep_wanted(first)) {
        wanted->sent_in_full = true;
        ++counters_.scripts_sent;
        send_or_fail(*wanted, now);
    }
}

/// The keys of the checks are in different hash slots, or in one that is moving, so each check goes
/// alone.
void Session::send_apart(Command &first, Time now) {
    for (Command *wanted = keep_wanted(first); wanted != nullptr;) {
        Command &alone = *std::exchange(wanted, wanted->next_in_batch);
        alone.next_in_batch = nullptr;
        send_or_fail(alone, now);
    }
}

/// Redis refused to run the script, so nothing was charged. Returns the commands for which somebody
/// still waits, as a chain, and drops the others.
Command *Session::keep_wanted(Command &first) {
    Command *wanted = nullptr;
    Command **next_wanted = &wanted;
    for (Command *next = &first; next != nullptr;) {
        Command &command = *std::exchange(next, next->next_in_batch);
        command.next_in_batch = nullptr;
        if (command.is_wanted()) {
            *next_wanted = &command;
            next_wanted = &command.next_in_batch;
        } else {
            drop(command);
        }
    }
    return wanted;
}

/// Ends a command that Redis did not run and that is not sent again. This is no fault of Redis.
void Session::drop(Command &command) {
    if (command.kind != Command::Kind::check) {
        finish_background_command(command, false);
        return;
    }
    CheckCallbacks *callbacks = command.callbacks;
    if (callbacks != nullptr) {
        waiting_.remove(command);
    }
    recycle(command);
    if (callbacks != nullptr) {
        callbacks->on_answer(Failure::reply);
    }
}

/// The command was written to the output, and its reply is expected from here on.
void Session::queue(Command &first, Time now) {
    for (Command *command = &first; command != nullptr; command = command->next_in_batch) {
        command->sent = now;
        command->is_sent = true;
    }
    first.end_of_command = output_.appended();
    to_answer_.push_back(first);
}

} // namespace redis_client
