// What the session does with the replies of Redis.
#include "redis_client/session/session.hpp"

#include "redis_client/script/answer.hpp"

#include <span>
#include <utility>

namespace redis_client {

namespace {

size_t batch_length(const Command &first) {
    size_t length = 0;
    for (const Command *check = &first; check != nullptr; check = check->next_in_batch) {
        ++length;
    }
    return length;
}

/// Counts the units that Redis has leased for a check which was given up: nobody can use them.
void count_late_leases(const Command &check, std::string_view answer) {
    const std::span<Charge> charges(check.late_charges.get(), check.late_charge_count);
    if (charges.empty() || read_answer(answer, charges) != AnswerState::good) {
        return;
    }
    for (const Charge &charge : charges) {
        if (charge.leased.units > 0 && charge.lease_counters != nullptr) {
            charge.lease_counters->count(rate_limit::RuleCounter::leases_taken);
            charge.lease_counters->count(rate_limit::RuleCounter::lease_units, charge.leased.units);
            charge.lease_counters->count(rate_limit::RuleCounter::lease_units_expired,
                                         charge.leased.units);
        }
    }
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
    const Login::Step step = login_.take(reply.type(), reply.text());
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
    permit_commands_.tend(to_send_.shares_batches(), now);
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
    if (command->kind == Command::Kind::settlement) {
        return take_settled(*command, reply);
    }
    const Reply::Type expected =
        command->kind == Command::Kind::asking ? Reply::Type::text : Reply::Type::nil;
    if (reply.type() != expected) {
        return broken("an unexpected reply", reply.text());
    }
    pipeline_.take_answered();
    if (command->kind != Command::Kind::asking) {
        permit_commands_.note_success();
    }
    permit_commands_.finish(*command, true);
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
        if (!has_error) {
            count_late_leases(*check, answer);
        }
        answers.remove_prefix(first.reply_size);
    }
    if (is_broken || (!answers.empty() && errors == 0)) {
        return broken("an unexpected reply", reply.text());
    }
    pipeline_.take_answered();
    const bool is_replica = is_error_of_replica(answers);
    problem_.note_failed_checks(first, answers);
    for (Command *check = &first; check != nullptr;) {
        Command &answered = *std::exchange(check, check->next_in_batch);
        if (answered.has_failed) {
            permit_commands_.give_back_permits(answered, now);
        } else {
            permit_commands_.keep_permits(answered, now);
        }
        finish(answered, answered.has_failed ? std::optional(Failure::reply) : std::nullopt, now);
    }
    return is_replica ? Progress::broken : Progress::more;
}

Session::Progress Session::take_settled(Command &command, const Reply &reply) {
    const std::string_view answer = reply.text();
    if (reply.type() != Reply::Type::text || reply.size() > Reply::longest_text ||
        !Settlements::is_answer(command, answer)) {
        return broken("an unexpected reply", answer);
    }
    pipeline_.take_answered();
    const std::string_view failure = Settlements::failure_in(command, answer);
    if (!failure.empty()) {
        problem_.note_error(command, "error reply", failure);
    }
    settlements_.finish(command, answer);
    return is_error_of_replica(failure) ? Progress::broken : Progress::more;
}

Session::Progress Session::broken(std::string_view what, std::string_view redis_said) {
    problem_.note(what, redis_said);
    return Progress::broken;
}

} // namespace redis_client
