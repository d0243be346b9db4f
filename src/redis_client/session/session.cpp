#include "redis_client/session/session.hpp"

#include "redis_client/script/answer.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

namespace redis_client {

namespace {

/// Keeps what tells how many units Redis leases for the check. Without memory nobody counts them.
void keep_late_charges(Command &check) {
    const auto wants = [](const Charge &charge) { return charge.wanted > 0; };
    if (!check.is_sent || std::ranges::none_of(check.charges, wants)) {
        return;
    }
    check.late_charges.reset(new (std::nothrow) Charge[check.charges.size()]);
    if (check.late_charges != nullptr) {
        std::ranges::copy(check.charges, check.late_charges.get());
        check.late_charge_count = check.charges.size();
    }
}

} // namespace

Session::Session(SessionGroup &group, uint32_t seed, Redirects *redirects)
    : group_(group),
      settings_(group.settings),
      redirects_(redirects),
      login_(settings_, group.scripts),
      problem_(group.unix_clock),
      breaker_(settings_.breaker, seed),
      pipeline_(group, *this),
      permit_commands_(group, pipeline_),
      settlements_(group, pipeline_) {}

std::variant<Command *, Failure> Session::ask(std::span<Charge> charges, CheckCallbacks &callbacks,
                                              Time now) {
    if (group_.commands.in_use() - group_.background_commands >= settings_.max_pending) {
        problem_.note("too many pending checks");
        return refuse(Failure::overload, now);
    }
    if (!breaker_.admits(now)) {
        ++counters_.not_asked;
        return Failure::breaker;
    }
    if (unreachable_) {
        return refuse(Failure::connect, now);
    }
    for (Charge &charge : charges) {
        charge.is_charged = false;
    }
    Command *check = pipeline_.new_command(Command::Kind::check);
    if (check == nullptr || !permit_commands_.make_permits(charges)) {
        if (check != nullptr) {
            check->charges = charges;
            permit_commands_.give_back_permits(*check, now);
            pipeline_.recycle(*check);
        }
        problem_.note("out of memory");
        return refuse(Failure::overload, now);
    }
    check->charges = charges;
    check->reply_size = answer_size(charges);
    check->callbacks = &callbacks;
    check->asked = now;
    check->hash_slot = charges.front().hash_slot;
    waiting_.push_back(*check);
    if (pipeline_.is_open()) {
        to_send_.add(*check);
    }
    return check;
}

void Session::flush(Time now) {
    while (!to_send_.empty()) {
        send_or_fail(to_send_.take_batch(group_.scripts), now);
    }
    settlements_.send(to_send_.shares_batches(), now);
}

void Session::send_waiting() {
    for (Command *check = waiting_.front(); check != nullptr; check = check->waiting_hook.next) {
        to_send_.add(*check);
    }
}

void Session::send_or_fail(Command &first, Time now) {
    if (!pipeline_.send(first, now)) {
        problem_.note("out of memory");
        fail(first, Failure::overload, now);
    }
}

/// Counts a check that was not asked.
Failure Session::refuse(Failure failure, Time now) {
    count(failure, now);
    return failure;
}

void Session::forget(Command &check, Time now) {
    permit_commands_.give_back_permits(check, now);
    waiting_.remove(check);
    keep_late_charges(check);
    check.callbacks = nullptr;
    check.charges = {};
    if (check.is_to_send) {
        to_send_.remove(check);
    }
    if (!check.is_sent) {
        pipeline_.recycle(check);
    }
}

void Session::abandon(Command &check, Time now) {
    if (check.is_sent) {
        check.is_sent_for_good = std::ranges::any_of(check.charges, &Charge::permit);
        permit_commands_.give_back_permits(check, now);
    }
    check.is_abandoned = true;
}

void Session::refund(std::span<Charge> charges, Time now) {
    for (Charge &charge : charges) {
        if (!charge.is_charged) {
            continue;
        }
        charge.is_charged = false;
        if (charge.permit != nullptr) {
            release(*std::exchange(charge.permit, nullptr), now);
        } else if (charge.quota.charges()) {
            settlements_.give_back(charge);
        }
        charge.verdict = rate_limit::verdict_after_refund(charge.quota, charge.verdict);
    }
}

void Session::release(Permit &permit, Time now) {
    permit_commands_.release(permit, now);
}

void Session::connected() {
    to_send_.set_shares_batches(true);
    problem_.forget();
    const std::string_view commands = login_.begin();
    reader_.reset();
    reader_.take_lists(login_.expects_list());
    pipeline_.close(); // until the login is done
    if (pipeline_.output().reserve(commands.size())) {
        pipeline_.output().append(commands);
    }
}

void Session::disconnected(Lost lost, Time now) {
    pipeline_.close();
    unreachable_ = lost == Lost::unreachable;
    while (Command *check = to_send_.front()) {
        to_send_.remove(*check);
    }
    while (Command *command = pipeline_.take_answered()) {
        fail(*command, Failure::connect, now);
    }
    while (lost == Lost::unreachable && has_waiting()) {
        fail(*waiting_.front(), Failure::connect, now);
    }
    permit_commands_.disconnected();
}

bool Session::expire(Time now) {
    while (!waiting_.empty() && waiting_.front()->asked + settings_.timeout <= now) {
        Command &check = *waiting_.front();
        CheckCallbacks *callbacks = check.callbacks;
        check.timed_out = true;
        forget(check, now);
        problem_.note(is_ready() ? "no answer in time" : "no connection in time");
        tell(callbacks, Failure::timeout, now);
    }
    const auto look = permit_commands_.next_tending();
    if (look && *look <= now) {
        permit_commands_.tend(to_send_.shares_batches(), now);
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
    if (const auto look = permit_commands_.next_tending()) {
        next = next ? std::min(*next, *look) : *look;
    }
    return next;
}

/// When the connection will have been silent for too long, if an answer is expected.
std::optional<Time> Session::given_up_at() const {
    const Command *next = pipeline_.next_to_answer();
    if (next == nullptr) {
        return std::nullopt;
    }
    return next->sent + std::max(longest_silence, settings_.timeout);
}

/// Fails a check with those that follow it in its batch, or a background command.
void Session::fail(Command &command, Failure failure, Time now) {
    if (command.kind != Command::Kind::check) {
        end_in_vain(command);
        return;
    }
    for (Command *check = &command; check != nullptr;) {
        Command &failed = *std::exchange(check, check->next_in_batch);
        permit_commands_.give_back_permits(failed, now);
        for (Charge &charge : failed.charges) {
            charge.is_charged =
                false; // its answer said so, but another one of the batch was broken
        }
        finish(failed, failure, now);
    }
}

/// Ends a background command that Redis did not run, or of which nobody knows whether it did.
void Session::end_in_vain(Command &background_command) {
    if (background_command.kind == Command::Kind::settlement) {
        settlements_.lose(background_command);
    } else {
        permit_commands_.finish(background_command, false);
    }
}

void Session::finish(Command &check, std::optional<Failure> failure, Time now) {
    CheckCallbacks *callbacks = check.callbacks;
    if (callbacks != nullptr) {
        waiting_.remove(check);
    }
    if (!failure) {
        suspects_.note_verdict(check);
    } else if (failure == Failure::reply) {
        suspects_.note_failure(check, problem_.last());
    }
    const bool timed_out = check.timed_out;
    pipeline_.recycle(check);
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

void Session::count(std::optional<Failure> failure, Time now) {
    const bool is_of_check =
        failure == Failure::reply && problem_.last().cause != Problem::Cause::redis;
    ++(failure ? counters_.failures : counters_.verdicts);
    counters_.check_failures += is_of_check ? 1 : 0;
    if (!failure || is_of_check) {
        breaker_.succeed();
    } else if (*failure != Failure::overload) { // an overload is the fault of this worker
        breaker_.fail(now);
    }
}

} // namespace redis_client
