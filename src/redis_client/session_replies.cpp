// What the session does with the replies of Redis.
#include "session.hpp"

#include "answer.hpp"

#include <algorithm>
#include <utility>

namespace redis_client {

namespace {

/// Only a node of a cluster has these errors. It may refuse one key and serve another.
bool is_of_cluster(std::string_view error) {
    constexpr std::string_view words[] = {"MOVED ", "ASK ", "TRYAGAIN ", "CROSSSLOT ",
                                          "CLUSTERDOWN "};
    return std::ranges::any_of(words,
                               [&](std::string_view word) { return error.starts_with(word); });
}

size_t batch_length(const Command &first) {
    size_t length = 0;
    for (const Command *check = &first; check != nullptr; check = check->next_in_batch) {
        ++length;
    }
    return length;
}

} // namespace

Session::Progress Session::received(std::string_view bytes, Time now) {
    Progress progress = Progress::more;
    reader_.feed(bytes);
    for (;;) {
        switch (reader_.next()) {
        case ReplyReader::Next::incomplete:
            return progress;
        case ReplyReader::Next::broken:
            return broken("an unexpected reply");
        case ReplyReader::Next::reply:
            break;
        }
        const Progress step = !pipeline_.is_open() ? take_login_reply(reader_.reply(), now)
                                                   : take_reply(reader_.reply(), now);
        if (step == Progress::broken || step == Progress::refused) {
            return step;
        }
        if (pipeline_.next_to_answer() == nullptr && reader_.reply().type() != Reply::Type::error) {
            breaker_.caught_up();
        }
        progress = step == Progress::ready ? step : progress;
    }
}

Session::Progress Session::take_login_reply(const Reply &reply, Time now) {
    const Login::Step step = login_.take(reply);
    switch (step.kind) {
    case Login::Step::Kind::more:
        reader_.take_lists(login_.expects_list());
        return Progress::more;
    case Login::Step::Kind::done:
        break;
    case Login::Step::Kind::broken:
        return broken(step.what, step.redis_said);
    case Login::Step::Kind::refused:
        problem_.note(step.what, step.redis_said);
        return Progress::refused;
    }
    pipeline_.open();
    unreachable_ = false;
    breaker_.succeed();
    send_waiting();
    background_.tend(now);
    return Progress::ready;
}

Session::Progress Session::take_reply(const Reply &reply, Time now) {
    Command *command = pipeline_.next_to_answer();
    if (command == nullptr || command->end_of_command > pipeline_.output().consumed()) {
        return broken("a reply that nothing asked for", reply.text());
    }
    if (reply.type() == Reply::Type::error) {
        pipeline_.take_answered();
        return take_error(*command, reply.text(), now);
    }
    if (command->kind == Command::Kind::check) {
        return take_verdicts(*command, reply, now);
    }
    const Reply::Type expected =
        command->kind == Command::Kind::asking ? Reply::Type::text : Reply::Type::nil;
    if (reply.type() != expected) {
        return broken("an unexpected reply", reply.text());
    }
    pipeline_.take_answered();
    if (command->kind != Command::Kind::asking) {
        background_.note_success();
    }
    background_.finish(*command, true);
    return Progress::more;
}

Session::Progress Session::take_verdicts(Command &first, const Reply &reply, Time now) {
    const size_t answers_size = first.reply_size * batch_length(first);
    const bool is_answer = reply.type() == Reply::Type::text && reply.size() >= answers_size &&
                           reply.size() <= Reply::longest_text &&
                           (first.next_in_batch != nullptr || reply.size() == answers_size);
    std::string_view answers = reply.text();
    bool is_broken = !is_answer;
    size_t errors = 0;
    for (Command *check = &first; check != nullptr && !is_broken; check = check->next_in_batch) {
        const std::string_view answer = answers.substr(0, first.reply_size);
        const bool has_error = is_failure(answer) && first.next_in_batch != nullptr;
        const AnswerState state =
            has_error ? AnswerState::good : read_answer(answer, check->charges);
        check->has_failed = has_error || state == AnswerState::impossible;
        errors += has_error ? 1 : 0;
        is_broken = state == AnswerState::foreign;
        answers.remove_prefix(first.reply_size);
    }
    if (is_broken || (!answers.empty() && errors == 0)) {
        return broken("an unexpected reply", reply.text());
    }
    pipeline_.take_answered();
    const bool is_replica = answers.find("READONLY ") != std::string_view::npos;
    problem_.note_failed_checks(first, answers);
    for (Command *check = &first; check != nullptr;) {
        Command &answered = *std::exchange(check, check->next_in_batch);
        if (answered.has_failed) {
            background_.leave(answered, now);
        } else {
            background_.settle(answered, now);
        }
        finish(answered, answered.has_failed ? std::optional(Failure::reply) : std::nullopt, now);
    }
    return is_replica ? Progress::broken : Progress::more;
}

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
    if ((is_across_slots || error.starts_with("TRYAGAIN")) && command.next_in_batch != nullptr) {
        if (is_across_slots) {
            to_send_.set_shares_batches(false);
        }
        send_apart(command, now);
        return Progress::more;
    }
    const bool lacks_mode = redirects_ == nullptr && is_of_cluster(error);
    const char *what = lacks_mode ? "a node of a cluster, use mode cluster" : "error reply";
    if (names_keys(error)) {
        problem_.note_of_keys(command, what, error);
    } else {
        problem_.note(what, error);
    }
    background_.note_refusal(command);
    fail(command, Failure::reply, now);
    // A master that became a replica stays one, but its address may come to mean the new master.
    // Redis 6 hides the word behind "ERR Error running script".
    const bool is_replica = error.find("READONLY ") != std::string_view::npos;
    // A proxy before several Redis may have led the connection to one that does not know us.
    const bool is_stranger = error.starts_with("NOAUTH");
    return is_replica || is_stranger ? Progress::broken : Progress::more;
}

Session::Progress Session::broken(std::string_view what, std::string_view redis_said) {
    problem_.note(what, redis_said);
    return Progress::broken;
}

/// Whether an error is about the keys of its check, so that other checks may have verdicts. If the
/// whole cluster is down, none has.
bool Session::names_keys(std::string_view error) const {
    const bool is_of_hash_slot = redirects_ == nullptr && is_of_cluster(error) &&
                                 !error.starts_with("CLUSTERDOWN The cluster is down");
    return is_of_hash_slot || is_error_of_keys(error);
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
        background_.finish(command, false);
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
