// What a session says first on a connection, and how Redis answers that.
#include "session.hpp"

#include "auth.hpp"
#include "commands.hpp"

namespace redis_client {

namespace {

constexpr std::string_view auth = "AUTH";
constexpr std::string_view role = "ROLE";

} // namespace

/// What is said on every new connection.
void Session::log_in() {
    ByteQueue login;
    const auto add = [&](std::string_view name, std::initializer_list<std::string_view> words) {
        login_commands_.push_back(name);
        write_command(login, words);
    };
    if (write_auth(login, settings_.username, settings_.password)) {
        login_commands_.push_back(auth);
    }
    if (settings_.needs_master) {
        add(role, {role});
    }
    if (settings_.database > 0) {
        add("SELECT", {"SELECT", std::to_string(settings_.database)});
    }
    const auto load = [&](const Script &script) {
        add("SCRIPT LOAD", {"SCRIPT", "LOAD", script.source});
    };
    bool has_permits = false;
    for (const ScriptShape &shape : settings_.shapes) {
        load(group_.scripts.check(shape));
        if (const Script *batch = group_.scripts.batch(shape)) {
            load(*batch);
        }
        has_permits = has_permits || shape.has(rate_limit::Algorithm::concurrency);
    }
    if (has_permits) {
        load(group_.scripts.refund(rate_limit::Algorithm::concurrency));
    }
    login_ = login.bytes();
}

void Session::connected() {
    state_ = State::logging_in;
    login_replies_ = 0;
    shares_batches_ = true;
    problem_ = {};
    reader_.reset();
    reader_.take_lists(settings_.needs_master);
    output_.clear();
    if (output_.reserve(login_.size())) {
        output_.append(login_);
    }
}

Session::Progress Session::take_login_reply(const Reply &reply, Time now) {
    const std::string_view command = login_commands_[login_replies_++];
    const bool last = login_replies_ == login_commands_.size();
    if (command == role && reply.type() != Reply::Type::error) {
        return take_role(reply);
    }
    if (reply.type() != Reply::Type::text) {
        return login_refused(command, reply.text());
    }
    if (!last) {
        return Progress::more;
    }
    state_ = State::ready;
    unreachable_ = false;
    breaker_.succeed();
    send_waiting();
    tend_permits(now);
    return Progress::ready;
}

/// Never the last reply of a login: scripts are loaded after it.
Session::Progress Session::take_role(const Reply &reply) {
    reader_.take_lists(false);
    const bool is_master = reply.type() == Reply::Type::list && reply.text() == "master";
    return is_master ? Progress::more : broken(role, reply.text());
}

Session::Progress Session::login_refused(std::string_view command, std::string_view redis_said) {
    if (redis_said.starts_with("ERR max number of clients")) {
        return broken("connecting", redis_said); // it comes unasked, as the first of all replies
    }
    const std::string_view kind = refusal_of_auth(redis_said);
    note_problem(command, command == auth ? kind : redis_said);
    const bool is_refused = kind == "WRONGPASS" || kind == "NOAUTH" || kind == "NOPERM";
    return is_refused ? Progress::refused : Progress::broken;
}

} // namespace redis_client
