#include "redis_client/control/control_session.hpp"

#include "redis_client/script/answer.hpp"
#include "redis_client/wire/resp.hpp"

#include <algorithm>
#include <utility>

namespace redis_client {

namespace {

uint64_t next_connection() {
    static uint64_t last = 0;
    return ++last;
}

/// The type and the text of a reply to a command of the login, as Login::take() wants them.
struct LoginReply {
    Reply::Type type;
    std::string_view text;
};

LoginReply login_reply_of(ReplyView reply) {
    if (reply.size() > 0) {
        return {Reply::Type::list, reply[0].text().value_or(std::string_view())};
    }
    const auto text = reply.text();
    if (!text) {
        return {Reply::Type::nil, {}};
    }
    return {reply.is_error() ? Reply::Type::error : Reply::Type::text, *text};
}

} // namespace

ControlSession::ControlSession(const SessionSettings &settings, Redirects *redirects,
                               size_t longest_reply)
    : redirects_(redirects), login_(settings), reader_(longest_reply) {}

void ControlSession::take_over(ControlCommand &command, Redirect::Kind kind) {
    command.needs_asking_ = kind == Redirect::Kind::ask;
    run(command);
}

/// Without memory the command waits for its deadline.
void ControlSession::run(ControlCommand &command) {
    earliest_ = is_idle() ? command.deadline_
                          : std::min(earliest_.value_or(command.deadline_), command.deadline_);
    const bool is_written =
        is_ready_ && (!command.needs_asking_ || write_command(output_, {"ASKING"}));
    if (is_written && command.needs_asking_) {
        command.needs_asking_ = false;
        sent_.push_back({nullptr, command.deadline_});
    }
    if (is_written && command.write(output_)) {
        sent_.push_back({&command, command.deadline_});
    } else {
        waiting_.push_back(&command);
    }
}

bool ControlSession::cancel(const ControlCommand &command) {
    if (const auto sent = std::ranges::find(sent_, &command, &Sent::command); sent != sent_.end()) {
        sent->command = nullptr;
        return true;
    }
    return std::erase(waiting_, &command) + std::erase(failing_, &command) > 0;
}

void ControlSession::connected() {
    const std::string_view commands = login_.begin();
    reader_.reset();
    output_.clear();
    connection_ = next_connection();
    if (output_.reserve(commands.size())) {
        output_.append(commands);
    }
    if (commands.empty()) {
        become_ready();
    }
}

void ControlSession::become_ready() {
    is_ready_ = true;
    what_ = {};
    detail_.clear();
    for (ControlCommand *command : std::exchange(waiting_, {})) {
        run(*command);
    }
}

ControlSession::Progress ControlSession::received(std::string_view bytes) {
    Progress last = Progress::more;
    const bool is_good = reader_.read(bytes, [&](ReplyView reply) {
        const Progress step = is_ready_ ? take_reply(reply) : take_login_reply(reply);
        last = step == Progress::more ? last : step;
        return step != Progress::broken && step != Progress::refused;
    });
    return is_good ? last : broken("an unexpected reply");
}

ControlSession::Progress ControlSession::take_login_reply(ReplyView reply) {
    const auto [type, text] = login_reply_of(reply);
    const Login::Step step = login_.take(type, text);
    switch (step.kind) {
    case Login::Step::Kind::more:
        return Progress::more;
    case Login::Step::Kind::done:
        become_ready();
        return Progress::ready;
    case Login::Step::Kind::broken:
        return broken(step.what, step.redis_said);
    case Login::Step::Kind::refused:
        (void)broken(step.what, step.redis_said);
        return Progress::refused;
    }
    return Progress::broken;
}

ControlSession::Progress ControlSession::take_reply(ReplyView reply) {
    const std::string_view error = reply.is_error() ? reply.text().value_or("") : "";
    if (sent_.empty()) {
        return broken("a reply that nothing asked for", error);
    }
    ControlCommand *command = sent_.front().command;
    sent_.pop_front();
    // A replica does not become a master on this connection, and a Redis without room for a client
    // closes it.
    const bool is_of_no_use =
        is_error_of_replica(error) || error.starts_with("ERR max number of clients");
    if (is_of_no_use) {
        (void)broken("error reply", error);
    }
    if (command != nullptr) {
        answer(*command, reply);
    }
    return is_of_no_use ? Progress::broken : Progress::more;
}

void ControlSession::answer(ControlCommand &command, ReplyView reply) {
    const auto to = redirects_ != nullptr && reply.is_error()
                        ? parse_redirect(reply.text().value_or(""))
                        : std::nullopt;
    if (to && ++command.redirects_ <= most_redirects && redirects_->redirect(*this, command, *to)) {
        return;
    }
    command.connection_ = connection_;
    command.on_reply(reply);
}

ControlSession::Progress ControlSession::broken(std::string_view what, std::string_view detail) {
    what_ = what;
    detail_ = detail;
    return Progress::broken;
}

/// A command that fails may be run anew at once, or another one may be cancelled: only those that
/// were there at first are told.
void ControlSession::disconnected(const Fault &fault) {
    is_ready_ = false;
    output_.clear();
    for (const Sent &sent : std::exchange(sent_, {})) {
        if (sent.command != nullptr) {
            failing_.push_back(sent.command);
        }
    }
    while (!failing_.empty()) {
        ControlCommand &command = *failing_.front();
        failing_.pop_front();
        command.on_failure(true, fault);
    }
}

void ControlSession::fail_waiting(const Fault &fault) {
    failing_ = std::exchange(waiting_, {});
    while (!failing_.empty()) {
        ControlCommand &command = *failing_.front();
        failing_.pop_front();
        command.on_failure(false, fault);
    }
}

bool ControlSession::expire(Time now) {
    const auto is_over = [&](const ControlCommand *command) { return command->deadline_ <= now; };
    for (ControlCommand *command : waiting_) {
        if (is_over(command)) {
            failing_.push_back(command);
        }
    }
    std::erase_if(waiting_, is_over);
    while (!failing_.empty()) {
        ControlCommand &command = *failing_.front();
        failing_.pop_front();
        command.on_failure(false, {is_ready_ ? "out of memory" : "no connection in time", detail_});
    }
    earliest_ = first_deadline();
    return std::ranges::any_of(sent_, [&](const Sent &sent) { return sent.deadline <= now; });
}

std::optional<Time> ControlSession::next_expiry() const {
    return is_idle() ? std::nullopt : earliest_;
}

std::optional<Time> ControlSession::first_deadline() const {
    std::optional<Time> next;
    const auto add = [&](Time deadline) { next = std::min(next.value_or(deadline), deadline); };
    for (const Sent &sent : sent_) {
        add(sent.deadline);
    }
    for (const ControlCommand *command : waiting_) {
        add(command->deadline_);
    }
    return next;
}

bool ControlSession::holds_worker() const {
    const auto holds = [](const ControlCommand *command) {
        return command != nullptr && command->holds_worker;
    };
    return std::ranges::any_of(waiting_, holds) ||
           std::ranges::any_of(sent_, holds, &Sent::command);
}

} // namespace redis_client
