// What the session does when Redis answers a command with an error: it sends the command again
// where that may help, as after NOSCRIPT, and fails it otherwise.
#include "redis_client/session/session.hpp"

#include "redis_client/script/answer.hpp"

#include <utility>

namespace redis_client {

namespace {

/// Only a node of a cluster has these errors.
bool is_of_cluster(std::string_view error) {
    return is_error_of_hash_slot(error) || error.starts_with("CLUSTERDOWN ");
}

} // namespace

Session::Progress Session::take_error(Command &command, std::string_view error, Time now) {
    if (error.starts_with("NOSCRIPT") && !command.sent_in_full) {
        send_in_full(command, now);
        return Progress::more;
    }
    if (const auto to = redirects_ != nullptr ? parse_redirect(error) : std::nullopt) {
        redirect(command, *to, error, now);
        return Progress::more;
    }
    const bool is_across_slots = error.starts_with("CROSSSLOT");
    if ((is_across_slots || error.starts_with("TRYAGAIN")) && command.has_company()) {
        if (is_across_slots) {
            to_send_.set_shares_batches(false);
        }
        send_apart(command, now);
        return Progress::more;
    }
    const bool lacks_mode = redirects_ == nullptr && is_of_cluster(error);
    problem_.note_error(
        command, lacks_mode ? "a node of a cluster, use mode cluster" : "error reply", error);
    permit_commands_.note_refusal(command);
    fail(command, Failure::reply, now);
    // A master that became a replica stays one, but its address may come to mean the new master.
    const bool is_replica = is_error_of_replica(error);
    // A proxy before several Redis may have led the connection to one that does not know us.
    const bool is_stranger = error.starts_with("NOAUTH");
    return is_replica || is_stranger ? Progress::broken : Progress::more;
}

/// Redis does not know the script, so it is sent along with the checks, or with the release.
void Session::send_in_full(Command &first, Time now) {
    if (Command *wanted = keep_wanted(first)) {
        wanted->sent_in_full = true;
        ++counters_.scripts_sent;
        send_or_fail(*wanted, now);
    }
}

/// The keys are in different hash slots, or in one that is moving, so each goes alone.
void Session::send_apart(Command &first, Time now) {
    if (first.kind == Command::Kind::settlement) {
        settlements_.send_apart(first, now);
        return;
    }
    if (first.kind == Command::Kind::renewal) {
        permit_commands_.send_apart(first, now);
        return;
    }
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
        end_in_vain(command);
        return;
    }
    CheckCallbacks *callbacks = command.callbacks;
    if (callbacks != nullptr) {
        waiting_.remove(command);
    }
    pipeline_.recycle(command);
    if (callbacks != nullptr) {
        callbacks->on_answer(Failure::reply);
    }
}

} // namespace redis_client
