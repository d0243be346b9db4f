#include "session.hpp"

#include "answer.hpp"
#include "commands.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace redis_client {

Session::Session(SessionSettings settings) : settings_(std::move(settings)) {
    log_in();
}

/// What is said on every new connection.
void Session::log_in() {
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
    const auto load = [&](const Script &script) {
        add("SCRIPT LOAD", {"SCRIPT", "LOAD", script.source});
    };
    bool has_slots = false;
    for (const ScriptShape &shape : settings_.shapes) {
        load(scripts_.check(shape));
        has_slots = has_slots || shape.has(rate_limit::Algorithm::concurrency);
    }
    if (has_slots) {
        load(scripts_.refund(rate_limit::Algorithm::concurrency));
    }
    login_ = login.bytes();
}

std::variant<Call *, Failure> Session::ask(std::span<Charge> charges, CheckListener &listener,
                                           Time now) {
    if (unreachable_) {
        ++counters_.failures;
        return Failure::connect;
    }
    if (pending() - errands_ >= settings_.max_pending) {
        ++counters_.failures;
        problem_ = {.what = "too many pending checks", .redis_said = {}};
        return Failure::overload;
    }
    Call *check = new_call(Call::Kind::check);
    const bool is_prepared = check != nullptr && prepare(*check, charges);
    if (!is_prepared || (state_ == State::ready && !send(*check, now))) {
        if (check != nullptr) {
            leave_slots(*check, now);
            recycle(*check);
        }
        ++counters_.failures;
        problem_ = {.what = "out of memory", .redis_said = {}};
        return Failure::overload;
    }
    check->listener = &listener;
    check->asked = now;
    waiting_.push_back(*check);
    return check;
}

/// False without memory.
bool Session::prepare(Call &check, std::span<Charge> charges) {
    ScriptShape shape;
    check.charges = charges;
    for (Charge &charge : charges) {
        shape.add({.algorithm = charge.quota.algorithm, .dry_run = charge.dry_run});
        charge.is_charged = false;
        charge.slot = nullptr;
    }
    check.script = &scripts_.check(shape);
    check.reply_size = answer_size(charges);
    for (Charge &charge : charges) {
        if (charge.quota.algorithm == rate_limit::Algorithm::concurrency) {
            charge.slot = slots_.make(charge.redis_key, charge.quota.cost, charge.quota.window);
            if (charge.slot == nullptr) {
                return false;
            }
        }
    }
    return true;
}

void Session::abandon(Call &check, Time now) {
    leave_slots(check, now);
    waiting_.remove(check);
    check.listener = nullptr;
    check.charges = {};
    if (!check.is_sent) {
        recycle(check);
    }
}

/// Nobody will hear whether the check took its slots.
void Session::leave_slots(const Call &check, Time now) {
    for (Charge &charge : check.charges) {
        if (charge.slot == nullptr) {
            continue;
        }
        if (check.is_sent) {
            release(*charge.slot, now);
        } else {
            slots_.drop(*charge.slot);
        }
        charge.slot = nullptr;
    }
}

void Session::refund(std::span<Charge> charges, Time now) {
    for (Charge &charge : charges) {
        if (!charge.is_charged) {
            continue;
        }
        charge.is_charged = false;
        charge.verdict = rate_limit::verdict_after_refund(charge.quota, charge.verdict);
        if (charge.slot != nullptr) {
            release(*std::exchange(charge.slot, nullptr), now);
        } else if (charge.quota.cost > 0 && state_ == State::ready) {
            send_refund(charge, now);
        }
    }
}

void Session::send_refund(const Charge &charge, Time now) {
    Call *errand = new_call(Call::Kind::refund);
    if (errand == nullptr) {
        return;
    }
    if (!write_refund(output_, scripts_.refund(charge.quota.algorithm), charge)) {
        recycle(*errand);
        return;
    }
    ++refunds_;
    queue(*errand, now);
}

void Session::release(Slot &slot, Time now) {
    slots_.give_back(slot, now);
    if (state_ == State::ready) {
        send_release(slot, now);
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
                                                          : take_reply(reader_.reply(), now);
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
    tend_slots(now);
    return Progress::ready;
}

Session::Progress Session::take_reply(const Reply &reply, Time now) {
    Call *call = unanswered_.front();
    if (call == nullptr || call->end_of_command > output_.consumed()) {
        return broken("a reply that nothing asked for", reply.text());
    }
    if (reply.type() == Reply::Type::error) {
        unanswered_.remove(*call);
        return take_error(*call, reply.text(), now);
    }
    if (call->kind == Call::Kind::check) {
        return take_verdicts(*call, reply);
    }
    if (reply.type() != Reply::Type::nil) { // errands' scripts return nothing
        return broken("an unexpected reply", reply.text());
    }
    unanswered_.remove(*call);
    refuses_errands_ = false;
    finish_errand(*call, true);
    return Progress::more;
}

Session::Progress Session::take_verdicts(Call &check, const Reply &reply) {
    if (reply.type() != Reply::Type::text || reply.size() != check.reply_size ||
        !read_answer(reply.text(), check.charges)) {
        return broken("an unexpected reply", reply.text());
    }
    settle_slots(check);
    unanswered_.remove(check);
    finish(check, std::nullopt);
    return Progress::more;
}

/// What was charged holds its slot; of the rest Redis knows none.
void Session::settle_slots(const Call &check) {
    for (Charge &charge : check.charges) {
        if (charge.slot == nullptr) {
            continue;
        }
        if (charge.is_charged && charge.quota.cost > 0) {
            slots_.hold(*charge.slot, check.sent);
        } else {
            slots_.drop(*std::exchange(charge.slot, nullptr));
        }
    }
}

Session::Progress Session::take_error(Call &call, std::string_view error, Time now) {
    const bool unknown_script = error.starts_with("NOSCRIPT");
    const bool is_wanted = call.listener != nullptr || call.kind == Call::Kind::release;
    if (unknown_script && !call.sent_in_full && is_wanted) {
        call.sent_in_full = true;
        if (send(call, now)) {
            return Progress::more;
        }
    }
    problem_ = {.what = "error reply", .redis_said = std::string(error)};
    if (call.kind == Call::Kind::check) {
        for (const Charge &charge : call.charges) {
            if (charge.slot != nullptr) {
                charge.slot->is_unlikely = true; // unless the script was stopped midway
            }
        }
        leave_slots(call, now);
        finish(call, Failure::reply);
    } else {
        if (call.kind == Call::Kind::release && !call.slot->is_unlikely) { // it is tried again
            refuses_errands_ = true;
        }
        finish_errand(call, false);
    }
    // A master that became a replica stays one, while its address may come to mean the new master.
    // Redis 6 hides the word behind "ERR Error running script".
    const bool is_replica = error.find("READONLY ") != std::string_view::npos;
    return is_replica ? Progress::broken : Progress::more;
}

Session::Progress Session::broken(std::string_view what, std::string_view redis_said) {
    problem_ = {.what = what, .redis_said = std::string(redis_said)};
    return Progress::broken;
}

void Session::disconnected(Lost lost, Time now) {
    state_ = State::closed;
    unreachable_ = lost == Lost::unreachable;
    output_.clear();
    while (Call *call = unanswered_.front()) {
        unanswered_.remove(*call);
        if (call->kind == Call::Kind::check) {
            leave_slots(*call, now);
            finish(*call, Failure::connect);
        } else {
            finish_errand(*call, false);
        }
    }
    while (lost == Lost::unreachable && has_waiting()) {
        Call &check = *waiting_.front();
        leave_slots(check, now);
        finish(check, Failure::connect);
    }
    slots_.doubt_renewals();
}

bool Session::expire(Time now) {
    while (!waiting_.empty() && waiting_.front()->asked + settings_.timeout <= now) {
        Call &check = *waiting_.front();
        CheckListener *listener = check.listener;
        check.timed_out = true;
        abandon(check, now);
        problem_ = {.what = "no answer in time", .redis_said = {}};
        tell(listener, Failure::timeout);
    }
    const auto look = slots_.next_look();
    if (look && *look <= now) {
        tend_slots(now);
    }
    const auto give_up = given_up_at();
    return give_up && *give_up <= now;
}

std::optional<Time> Session::next_expiry() const {
    std::optional<Time> next = given_up_at();
    const auto sooner = [&next](Time time) { next = next ? std::min(*next, time) : time; };
    if (!waiting_.empty()) {
        sooner(waiting_.front()->asked + settings_.timeout);
    }
    if (const auto look = slots_.next_look()) {
        sooner(*look);
    }
    return next;
}

/// When the connection has been silent for too long; nothing where nothing is unanswered.
std::optional<Time> Session::given_up_at() const {
    if (unanswered_.empty()) {
        return std::nullopt;
    }
    return unanswered_.front()->sent + std::max(longest_silence, settings_.timeout);
}

/// A check or a release. False without memory, and nothing was sent.
bool Session::send(Call &call, Time now) {
    const Sending sending = call.sent_in_full ? Sending::in_full : Sending::by_name;
    const bool written = call.kind == Call::Kind::release
                             ? write_release(output_, *call.script, sending, *call.slot)
                             : write_check(output_, *call.script, sending, call.charges);
    if (written) {
        queue(call, now);
    }
    return written;
}

/// The command has been written to the output.
void Session::queue(Call &call, Time now) {
    call.sent = now;
    call.is_sent = true;
    call.end_of_command = output_.appended();
    unanswered_.push_back(call);
}

void Session::send_waiting(Time now) {
    for (Call *check = waiting_.front(); check != nullptr;) {
        Call &unsent = *check;
        check = unsent.waiting_hook.next;
        if (!send(unsent, now)) {
            leave_slots(unsent, now);
            problem_ = {.what = "out of memory", .redis_said = {}};
            finish(unsent, Failure::overload);
        }
    }
}

void Session::send_release(Slot &slot, Time now) {
    Call *errand = new_call(Call::Kind::release);
    if (errand == nullptr) {
        return; // the next look at the slots tries again
    }
    errand->script = &scripts_.refund(rate_limit::Algorithm::concurrency);
    errand->slot = &slot;
    slot.is_release_sent = send(*errand, now);
    if (!slot.is_release_sent) {
        recycle(*errand);
    }
}

/// Slots whose release is not on its way, and those to be renewed.
void Session::tend_slots(Time now) {
    slots_.looked(now);
    for (Slot *slot = slots_.returning().front(); slot != nullptr;) {
        Slot &returning = *slot;
        slot = returning.hook.next;
        if (returning.is_release_sent) {
            continue;
        }
        if (Slots::has_ended(returning, now)) {
            slots_.drop(returning);
        } else if (state_ == State::ready) {
            send_release(returning, now);
        }
    }
    if (state_ == State::ready) {
        renew_slots(now);
    }
}

void Session::renew_slots(Time now) {
    constexpr size_t most_at_once = 64; // a script run is to stay short
    std::array<Slot *, most_at_once> due;
    size_t count = 0;
    for (Slot *slot = slots_.held().front(); slot != nullptr; slot = slot->hook.next) {
        if (Slots::is_to_renew(*slot, now)) {
            slot->renewed = now;
            slot->is_doubtful = false;
            due[count++] = slot;
        }
        if (count == due.size() || (count > 0 && slot->hook.next == nullptr)) {
            send_renewal({due.data(), count}, now);
            count = 0;
        }
    }
}

void Session::send_renewal(std::span<Slot *const> slots, Time now) {
    Call *errand = new_call(Call::Kind::renewal);
    if (errand == nullptr) {
        return;
    }
    if (!write_renewal(output_, scripts_.renew(), slots)) {
        recycle(*errand);
        return;
    }
    queue(*errand, now);
}

void Session::finish(Call &check, std::optional<Failure> failure) {
    CheckListener *listener = check.listener;
    if (listener != nullptr) {
        waiting_.remove(check);
    }
    const bool timed_out = check.timed_out;
    recycle(check);
    if (!timed_out) {
        tell(listener, failure);
    }
}

void Session::tell(CheckListener *listener, std::optional<Failure> failure) {
    ++(failure ? counters_.failures : counters_.verdicts);
    if (listener != nullptr) {
        listener->on_answer(failure);
    }
}

void Session::finish_errand(Call &errand, bool done) {
    if (errand.kind == Call::Kind::refund) {
        --refunds_;
    } else if (errand.kind == Call::Kind::release) {
        errand.slot->is_release_sent = false;
        if (done || errand.slot->is_unlikely) {
            slots_.drop(*errand.slot);
        }
    }
    recycle(errand);
}

Call *Session::new_call(Call::Kind kind) {
    Call *call = calls_.take();
    if (call != nullptr) {
        call->kind = kind;
        errands_ += kind == Call::Kind::check ? 0 : 1;
        call->listener = nullptr;
        call->charges = {};
        call->slot = nullptr;
        call->is_sent = call->sent_in_full = call->timed_out = false;
    }
    return call;
}

void Session::recycle(Call &call) {
    errands_ -= call.kind == Call::Kind::check ? 0 : 1;
    calls_.give_back(call);
}

} // namespace redis_client
