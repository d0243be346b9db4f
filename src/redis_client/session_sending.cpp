// How a session's checks go out: those of one turn that have the same rules in one script run.
#include "session.hpp"

#include "answer.hpp"
#include "commands.hpp"

#include <algorithm>
#include <utility>

namespace redis_client {

namespace {

/// Whether one script run can decide both: their rules' numbers are the same, and no argument is
/// the check's own.
bool can_share_batch(const Command &check, const Command &other) {
    const auto same = [](const Charge &charge, const Charge &other_charge) {
        return charge.arguments == other_charge.arguments && charge.dry_run == other_charge.dry_run;
    };
    return check.hash_slot == other.hash_slot && check.needs_asking == other.needs_asking &&
           std::ranges::equal(check.charges, other.charges, same);
}

/// How long Redis works for a charge, in charges of one unit: a log has an entry for each.
size_t work_of(const Charge &charge) {
    constexpr uint64_t entries_like_one_charge = 16;
    const bool is_log = charge.quota.algorithm == rate_limit::Algorithm::sliding_log;
    return 1 + (is_log ? charge.quota.cost / entries_like_one_charge : 0);
}

/// A run is to stay below a millisecond, and its answers within a reply.
size_t longest_batch(const Command &check) {
    constexpr size_t most_work = 64;
    constexpr size_t room_for_failure = 512;
    size_t work = 0;
    for (const Charge &charge : check.charges) {
        work += work_of(charge);
    }
    const size_t checks = std::min(most_work / std::max<size_t>(work, 1),
                                   (Reply::longest_text - room_for_failure) / check.reply_size);
    return std::max<size_t>(checks, 1);
}

} // namespace

/// False without memory.
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

void Session::send_later(Command &check) {
    check.is_to_send = true;
    to_send_.push_back(check);
}

void Session::forget_to_send(Command &check) {
    to_send_.remove(check);
    check.is_to_send = false;
}

void Session::send_waiting() {
    for (Command *check = waiting_.front(); check != nullptr; check = check->waiting_hook.next) {
        send_later(*check);
    }
}

void Session::flush(Time now) {
    while (!to_send_.empty()) {
        send_or_fail(take_batch(), now);
    }
}

void Session::send_or_fail(Command &first, Time now) {
    if (!send(first, now)) {
        note_problem("out of memory");
        fail(first, Failure::overload, now);
    }
}

/// The first check that is to be sent, followed by those that can share its run.
Command &Session::take_batch() {
    Command &first = *to_send_.front();
    forget_to_send(first);
    const bool can_share =
        shares_batches_ && group_.scripts.batch(shape_of(first.charges)) != nullptr;
    size_t room = can_share ? longest_batch(first) - 1 : 0;
    size_t looks = 256; // so that many that share nothing do not each look at all others
    Command *last = &first;
    for (Command *check = to_send_.front(); check != nullptr && room > 0 && looks > 0; --looks) {
        Command &other = *std::exchange(check, check->sending_hook.next);
        if (can_share_batch(first, other)) {
            forget_to_send(other);
            last->next_in_batch = &other;
            last = &other;
            --room;
        }
    }
    return first;
}

/// A run of checks, or a release. False without memory, and nothing was sent.
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

/// Redis does not know the script: it goes with the checks, or the release.
void Session::send_in_full(Command &first, Time now) {
    if (Command *wanted = keep_wanted(first)) {
        wanted->sent_in_full = true;
        ++counters_.scripts_sent;
        send_or_fail(*wanted, now);
    }
}

/// The keys of different checks are in different hash slots, or in one that is moving: each check
/// goes alone.
void Session::send_apart(Command &first, Time now) {
    for (Command *wanted = keep_wanted(first); wanted != nullptr;) {
        Command &alone = *std::exchange(wanted, wanted->next_in_batch);
        alone.next_in_batch = nullptr;
        send_or_fail(alone, now);
    }
}

/// Redis refused to run the script, so nothing was charged: those commands for which somebody still
/// waits may go again.
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

/// What was not run, and nobody asks for again: no fault of Redis.
void Session::drop(Command &command) {
    if (command.kind != Command::Kind::check) {
        finish_background_command(command, false);
        return;
    }
    CheckCallbacks *listener = command.listener;
    if (listener != nullptr) {
        waiting_.remove(command);
    }
    recycle(command);
    if (listener != nullptr) {
        listener->on_answer(Failure::reply);
    }
}

/// The command has been written to the output.
void Session::queue(Command &first, Time now) {
    for (Command *command = &first; command != nullptr; command = command->next_in_batch) {
        command->sent = now;
        command->is_sent = true;
    }
    first.end_of_command = output_.appended();
    to_answer_.push_back(first);
}

} // namespace redis_client
