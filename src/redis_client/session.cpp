#include "session.hpp"

#include "../rate_limit/text.hpp"
#include "answer.hpp"

#include <algorithm>
#include <array>
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

Session::Session(SessionGroup &group, uint32_t seed, Redirects *redirects)
    : group_(group),
      settings_(group.settings),
      redirects_(redirects),
      login_(settings_, group.scripts),
      breaker_(settings_.breaker, seed),
      permits_(group.permits) {}

std::variant<Command *, Failure> Session::ask(std::span<Charge> charges, CheckCallbacks &callbacks,
                                              Time now) {
    if (group_.commands.in_use() - group_.background_commands >= settings_.max_pending) {
        note_problem("too many pending checks");
        return refuse(Failure::overload, now);
    }
    if (!breaker_.admits(now)) {
        ++counters_.not_asked;
        return Failure::breaker;
    }
    if (unreachable_) {
        return refuse(Failure::connect, now);
    }
    Command *check = new_command(Command::Kind::check);
    if (check == nullptr || !prepare(*check, charges)) {
        if (check != nullptr) {
            leave_permits(*check, now);
            recycle(*check);
        }
        note_problem("out of memory");
        return refuse(Failure::overload, now);
    }
    check->callbacks = &callbacks;
    check->asked = now;
    check->hash_slot = charges.front().hash_slot;
    waiting_.push_back(*check);
    if (state_ == State::ready) {
        to_send_.add(*check);
    }
    return check;
}

/// Counts a check that was not asked.
Failure Session::refuse(Failure failure, Time now) {
    count(failure, now);
    return failure;
}

void Session::abandon(Command &check, Time now) {
    leave_permits(check, now);
    waiting_.remove(check);
    check.callbacks = nullptr;
    check.charges = {};
    if (check.is_to_send) {
        to_send_.remove(check);
    }
    if (!check.is_sent) {
        recycle(check);
    }
}

void Session::hand_over(Command &check, std::span<Charge> charges, CheckCallbacks &callbacks,
                        Time now) {
    if (check.is_sent) {
        check.is_sent_for_good = std::ranges::any_of(check.charges, &Charge::permit);
        leave_permits(check, now);
    }
    for (size_t i = 0; i < charges.size(); ++i) {
        charges[i].permit = std::exchange(check.charges[i].permit, nullptr);
    }
    check.charges = charges;
    check.callbacks = &callbacks;
    check.is_handed_over = true;
}

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
        const Progress step = state_ == State::logging_in ? take_login_reply(reader_.reply(), now)
                                                          : take_reply(reader_.reply(), now);
        if (step == Progress::broken || step == Progress::refused) {
            return step;
        }
        if (to_answer_.empty() && reader_.reply().type() != Reply::Type::error) {
            breaker_.caught_up();
        }
        progress = step == Progress::ready ? step : progress;
    }
}

void Session::connected() {
    state_ = State::logging_in;
    to_send_.set_shares_batches(true);
    problem_ = {};
    const std::string_view commands = login_.begin();
    reader_.reset();
    reader_.take_lists(login_.expects_list());
    output_.clear();
    if (output_.reserve(commands.size())) {
        output_.append(commands);
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
        note_problem(step.what, step.redis_said);
        return Progress::refused;
    }
    state_ = State::ready;
    unreachable_ = false;
    breaker_.succeed();
    send_waiting();
    tend_permits(now);
    return Progress::ready;
}

Session::Progress Session::take_reply(const Reply &reply, Time now) {
    Command *command = to_answer_.front();
    if (command == nullptr || command->end_of_command > output_.consumed()) {
        return broken("a reply that nothing asked for", reply.text());
    }
    if (reply.type() == Reply::Type::error) {
        to_answer_.remove(*command);
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
    to_answer_.remove(*command);
    refuses_background_commands_ =
        refuses_background_commands_ && command->kind == Command::Kind::asking;
    finish_background_command(*command, true);
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
    to_answer_.remove(first);
    const bool is_replica = answers.find("READONLY ") != std::string_view::npos;
    note_failed_checks(first, answers);
    for (Command *check = &first; check != nullptr;) {
        Command &answered = *std::exchange(check, check->next_in_batch);
        if (answered.has_failed) {
            leave_permits(answered, now);
        } else {
            settle_permits(answered, now);
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
        note_problem_of_keys(command, what, error);
    } else {
        note_problem(what, error);
    }
    note_refusal(command);
    fail(command, Failure::reply, now);
    // A master that became a replica stays one, but its address may come to mean the new master.
    // Redis 6 hides the word behind "ERR Error running script".
    const bool is_replica = error.find("READONLY ") != std::string_view::npos;
    // A proxy before several Redis may have led the connection to one that does not know us.
    const bool is_stranger = error.starts_with("NOAUTH");
    return is_replica || is_stranger ? Progress::broken : Progress::more;
}

Session::Progress Session::broken(std::string_view what, std::string_view redis_said) {
    note_problem(what, redis_said);
    return Progress::broken;
}

void Session::note_problem(std::string_view what, std::string_view redis_said) {
    const std::string_view kept = redis_said.substr(0, redis_said_.size());
    rate_limit::append(redis_said_.data(), kept);
    problem_ = {};
    problem_.what = what;
    problem_.redis_said = {redis_said_.data(), kept.size()};
}

void Session::note_problem_of_keys(const Command &check, std::string_view what,
                                   std::string_view redis_said) {
    note_problem(what, redis_said);
    problem_.is_of_keys = true;
    if (check.callbacks != nullptr) {
        problem_.checked = check.callbacks->describe(checked_);
    }
}

/// Records, for the log, the checks of a batch that failed alone. `error` is what Redis said of the
/// last one of them.
void Session::note_failed_checks(const Command &first, std::string_view error) {
    for (const Command *check = &first; check != nullptr; check = check->next_in_batch) {
        if (!check->has_failed) {
            continue;
        }
        if (error.empty()) {
            note_problem_of_keys(*check, "impossible numbers of a key's value");
        } else if (is_error_of_keys(error)) {
            note_problem_of_keys(*check, "error reply", error);
        } else {
            note_problem("error reply", error);
        }
    }
}

void Session::disconnected(Lost lost, Time now) {
    state_ = State::closed;
    unreachable_ = lost == Lost::unreachable;
    output_.clear();
    while (Command *check = to_send_.front()) {
        to_send_.remove(*check);
    }
    while (Command *command = to_answer_.front()) {
        to_answer_.remove(*command);
        fail(*command, Failure::connect, now);
    }
    while (lost == Lost::unreachable && has_waiting()) {
        fail(*waiting_.front(), Failure::connect, now);
    }
    permits_.doubt_renewals();
}

bool Session::expire(Time now) {
    while (!waiting_.empty() && waiting_.front()->asked + settings_.timeout <= now) {
        Command &check = *waiting_.front();
        CheckCallbacks *callbacks = check.callbacks;
        check.timed_out = true;
        abandon(check, now);
        note_problem(is_ready() ? "no answer in time" : "no connection in time");
        tell(callbacks, Failure::timeout, now);
    }
    const auto look = permits_.next_look();
    if (look && *look <= now) {
        tend_permits(now);
    }
    const auto give_up = given_up_at();
    return give_up && *give_up <= now;
}

std::optional<Time> Session::overdue_at() const {
    const std::optional<Time> given_up = given_up_at();
    if (waiting_.empty()) {
        return given_up;
    }
    const Time deadline = waiting_.front()->asked + settings_.timeout;
    return given_up ? std::min(*given_up, deadline) : deadline;
}

std::optional<Time> Session::next_expiry() const {
    std::optional<Time> next = overdue_at();
    if (const auto look = permits_.next_look()) {
        next = next ? std::min(*next, *look) : *look;
    }
    return next;
}

/// When the connection will have been silent for too long, if an answer is expected.
std::optional<Time> Session::given_up_at() const {
    if (to_answer_.empty()) {
        return std::nullopt;
    }
    return to_answer_.front()->sent + std::max(longest_silence, settings_.timeout);
}

/// Fails a check with those that follow it in its batch, or a background command.
void Session::fail(Command &command, Failure failure, Time now) {
    if (command.kind != Command::Kind::check) {
        finish_background_command(command, false);
        return;
    }
    for (Command *check = &command; check != nullptr;) {
        Command &failed = *std::exchange(check, check->next_in_batch);
        leave_permits(failed, now);
        for (Charge &charge : failed.charges) {
            charge.is_charged =
                false; // its answer said so, but another one of the batch was broken
        }
        finish(failed, failure, now);
    }
}

void Session::finish(Command &check, std::optional<Failure> failure, Time now) {
    CheckCallbacks *callbacks = check.callbacks;
    if (callbacks != nullptr) {
        waiting_.remove(check);
    }
    const bool timed_out = check.timed_out;
    recycle(check);
    if (!timed_out) {
        tell(callbacks, failure, now);
    }
}

void Session::tell(CheckCallbacks *callbacks, std::optional<Failure> failure, Time now) {
    count(failure, now);
    if (callbacks != nullptr) {
        callbacks->on_answer(failure);
    }
}

/// Whether an error is about the keys of its check, so that other checks may have verdicts. If the
/// whole cluster is down, none has.
bool Session::names_keys(std::string_view error) const {
    const bool is_of_hash_slot = redirects_ == nullptr && is_of_cluster(error) &&
                                 !error.starts_with("CLUSTERDOWN The cluster is down");
    return is_of_hash_slot || is_error_of_keys(error);
}

void Session::count(std::optional<Failure> failure, Time now) {
    const bool is_of_keys = failure == Failure::reply && problem_.is_of_keys;
    ++(failure ? counters_.failures : counters_.verdicts);
    counters_.key_failures += is_of_keys ? 1 : 0;
    if (!failure || is_of_keys) {
        breaker_.succeed();
    } else if (*failure != Failure::overload) { // an overload is the fault of this worker
        breaker_.fail(now);
    }
}

Command *Session::new_command(Command::Kind kind) {
    Command *command = group_.commands.take();
    if (command != nullptr) {
        command->kind = kind;
        command->session = this;
        ++pending_;
        group_.background_commands += kind == Command::Kind::check ? 0 : 1;
    }
    return command;
}

void Session::recycle(Command &command) {
    --pending_;
    group_.background_commands -= command.kind == Command::Kind::check ? 0 : 1;
    group_.commands.give_back(command);
}

} // namespace redis_client
