#include "session.hpp"

#include <algorithm>
#include <new>

namespace redis_client {

Session::Session(SessionSettings settings) : settings_(std::move(settings)) {
    ByteQueue login;
    const auto add = [&](std::string_view name, std::initializer_list<std::string_view> words) {
        login_commands_.push_back(name);
        write_command(login, words);
    };
    if (!settings_.password.empty()) {
        if (settings_.username.empty()) {
            add("AUTH", {"AUTH", settings_.password});
        } else {
            add("AUTH", {"AUTH", settings_.username, settings_.password});
        }
    }
    if (settings_.database > 0) {
        add("SELECT", {"SELECT", std::to_string(settings_.database)});
    }
    for (const Script *script : settings_.scripts) {
        add("SCRIPT LOAD", {"SCRIPT", "LOAD", script->source});
    }
    login_ = login.bytes();
}

Session::~Session() {
    while (all_ != nullptr) {
        all_ = std::move(all_->older); // one by one: a chain of destructors could be deep
    }
}

std::variant<Check *, Failure> Session::ask(const PreparedRule &rule, std::string_view client_key,
                                            CheckListener &listener, Time now) {
    if (unreachable_) {
        ++counters_.failures;
        return Failure::connect;
    }
    Check *check = pending_ < settings_.max_pending ? new_check() : nullptr;
    if (check == nullptr) {
        ++counters_.failures;
        problem_ = {.what = "too many pending checks", .redis_said = {}};
        return Failure::overload;
    }
    check->rule = &rule;
    check->listener = &listener;
    check->asked = now;
    check->redis_key = rule.key_format.write(client_key, check->redis_key_bytes);
    if (state_ == State::ready && !send(*check, now)) {
        recycle(*check);
        ++counters_.failures;
        problem_ = {.what = "out of memory", .redis_said = {}};
        return Failure::overload;
    }
    waiting_.push_back(*check);
    return check;
}

void Session::abandon(Check &check) {
    waiting_.remove(check);
    check.listener = nullptr;
    if (!check.is_sent) {
        recycle(check);
    }
}

void Session::connected() {
    state_ = State::logging_in;
    login_replies_ = 0;
    problem_ = {};
    reader_.reset();
    output_.clear();
    if (output_.reserve(login_.size())) {
        output_.append(login_);
    }
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
                                                          : take_check_reply(reader_.reply(), now);
        if (step == Progress::broken) {
            return step;
        }
        progress = step == Progress::ready ? step : progress;
    }
}

Session::Progress Session::take_login_reply(const Reply &reply, Time now) {
    const std::string_view command = login_commands_[login_replies_++];
    const bool last = login_replies_ == login_commands_.size();
    if (reply.type() != Reply::Type::text) {
        // A Redis that knows no AUTH repeats its words, and with them the password.
        const std::string_view said = reply.text();
        return broken(command, command == "AUTH" ? said.substr(0, said.find(' ')) : said);
    }
    if (!last) {
        return Progress::more;
    }
    state_ = State::ready;
    unreachable_ = false;
    send_waiting(now);
    return Progress::ready;
}

Session::Progress Session::take_check_reply(const Reply &reply, Time now) {
    Check *check = unanswered_.front();
    if (check == nullptr || check->end_of_command > output_.consumed()) {
        return broken("a reply that nothing asked for", reply.text());
    }
    if (reply.type() == Reply::Type::error) {
        unanswered_.remove(*check);
        return take_check_error(*check, reply.text(), now);
    }
    const auto verdict = rate_limit::verdict_of_reply(check->rule->rule, reply.numbers());
    if (!verdict) {
        return broken("an unexpected reply", reply.text());
    }
    unanswered_.remove(*check);
    finish(*check, *verdict);
    return Progress::more;
}

Session::Progress Session::take_check_error(Check &check, std::string_view error, Time now) {
    const bool unknown_script = error.starts_with("NOSCRIPT");
    if (unknown_script && !check.sent_in_full && check.listener != nullptr) {
        check.sent_in_full = true;
        if (send(check, now)) {
            return Progress::more;
        }
    }
    problem_ = {.what = "error reply", .redis_said = std::string(error)};
    finish(check, Failure::reply);
    // A master that became a replica stays one, while its address may come to mean the new master.
    // Redis 6 hides the word behind "ERR Error running script".
    const bool is_replica = error.find("READONLY ") != std::string_view::npos;
    return is_replica ? Progress::broken : Progress::more;
}

Session::Progress Session::broken(std::string_view what, std::string_view redis_said) {
    problem_ = {.what = what, .redis_said = std::string(redis_said)};
    return Progress::broken;
}

void Session::disconnected(Lost lost) {
    state_ = State::closed;
    unreachable_ = lost == Lost::unreachable;
    output_.clear();
    while (Check *check = unanswered_.front()) {
        unanswered_.remove(*check);
        finish(*check, Failure::connect);
    }
    while (lost == Lost::unreachable && has_waiting()) {
        finish(*waiting_.front(), Failure::connect);
    }
}

bool Session::expire(Time now) {
    while (!waiting_.empty() && waiting_.front()->asked + settings_.timeout <= now) {
        Check &check = *waiting_.front();
        CheckListener *listener = check.listener;
        check.timed_out = true;
        abandon(check);
        problem_ = {.what = "no answer in time", .redis_said = {}};
        tell(listener, Failure::timeout);
    }
    const auto give_up = given_up_at();
    return give_up && *give_up <= now;
}

std::optional<Time> Session::next_expiry() const {
    const auto give_up = given_up_at();
    if (waiting_.empty()) {
        return give_up;
    }
    const Time deadline = waiting_.front()->asked + settings_.timeout;
    return give_up ? std::min(*give_up, deadline) : deadline;
}

/// When the connection has been silent for too long; nothing where nothing is unanswered.
std::optional<Time> Session::given_up_at() const {
    if (unanswered_.empty()) {
        return std::nullopt;
    }
    return unanswered_.front()->sent + std::max(longest_silence, settings_.timeout);
}

bool Session::send(Check &check, Time now) {
    const Script &script = *check.rule->script;
    const std::string_view command = check.sent_in_full ? "EVAL" : "EVALSHA";
    const std::string_view body = check.sent_in_full ? script.source : script.sha1;
    if (!write_command(output_, {command, body, "1", check.redis_key}, check.rule->arguments)) {
        return false;
    }
    check.sent = now;
    check.is_sent = true;
    check.end_of_command = output_.appended();
    unanswered_.push_back(check);
    return true;
}

void Session::send_waiting(Time now) {
    for (Check *check = waiting_.front(); check != nullptr;) {
        Check &unsent = *check;
        check = unsent.waiting_hook.next;
        if (!send(unsent, now)) {
            finish(unsent, Failure::overload);
        }
    }
}

void Session::finish(Check &check, const CheckResult &result) {
    CheckListener *listener = check.listener;
    if (listener != nullptr) {
        waiting_.remove(check);
    }
    const bool timed_out = check.timed_out;
    recycle(check);
    if (!timed_out) {
        tell(listener, result);
    }
}

void Session::tell(CheckListener *listener, const CheckResult &result) {
    ++(std::holds_alternative<Failure>(result) ? counters_.failures : counters_.verdicts);
    if (listener != nullptr) {
        listener->on_result(result);
    }
}

Check *Session::new_check() {
    if (spare_ == nullptr) {
        std::unique_ptr<Check> fresh(new (std::nothrow) Check);
        if (fresh == nullptr) {
            return nullptr;
        }
        fresh->older = std::move(all_);
        all_ = std::move(fresh);
        spare_ = all_.get();
    }
    Check *check = spare_;
    spare_ = check->next_spare;
    ++pending_;
    return check;
}

void Session::recycle(Check &check) {
    check.is_sent = false;
    check.sent_in_full = false;
    check.timed_out = false;
    check.next_spare = spare_;
    spare_ = &check;
    --pending_;
}

} // namespace redis_client
