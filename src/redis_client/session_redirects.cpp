// What a session does as one of several, at the nodes of a cluster: checks move with their keys.
#include "session.hpp"

#include <utility>

namespace redis_client {

namespace {

/// The map may be wrong once, and the keys of a hash slot may move while it is put right.
constexpr int most_redirects = 5;

} // namespace

/// Another node has the key, so this one has charged nothing: what somebody still waits for is to
/// be asked there.
void Session::redirect(Call &first, const Redirect &to, std::string_view error, Time now) {
    breaker_.succeed();
    redirects_->on_redirect(*this, to);
    if (first.kind == Call::Kind::renewal) {
        if (to.kind == Redirect::Kind::ask && !first.needs_asking) {
            leave(first); // the slots stay: only this time they are renewed elsewhere
            redirects_->ask_again(first, *this, to);
            return;
        }
        slots_.doubt_renewals();
    }
    for (Call *next = &first; next != nullptr;) {
        Call &call = *std::exchange(next, next->next_in_run);
        call.next_in_run = nullptr;
        if (!call.is_wanted()) {
            drop(call);
        } else if (++call.redirects > most_redirects) {
            note_problem("too many redirects", error);
            fail(call, Failure::reply, now);
        } else {
            leave(call);
            redirects_->ask_again(call, *this, to);
        }
    }
}

/// The call is to become another session's.
void Session::leave(Call &call) {
    --pending_;
    if (call.listener != nullptr) {
        waiting_.remove(call);
    }
}

Call *Session::give_away() {
    Call *call = waiting_.front();
    if (call != nullptr) {
        leave(*call);
    }
    return call;
}

void Session::take_over(Call &call, Redirect::Kind kind, Time now) {
    ++pending_;
    Session &from = *std::exchange(call.session, this);
    call.is_sent = call.sent_in_full = false;
    call.needs_asking = kind == Redirect::Kind::ask;
    for (const Charge &charge : call.charges) {
        if (charge.slot != nullptr) {
            slots_.adopt(*charge.slot);
        }
    }
    if (call.listener != nullptr) {
        wait(call);
    }
    if (unreachable_) {
        fail(call, Failure::connect, now);
    } else if (call.kind == Call::Kind::check) {
        if (state_ == State::ready) {
            send_later(call);
        }
    } else if (call.kind == Call::Kind::renewal) {
        resend_renewal(call, from, now);
    } else if (state_ != State::ready || !send(call, now)) {
        finish_errand(call, false);
    }
}

/// In the order of asking: a check from elsewhere may be older than others.
void Session::wait(Call &check) {
    Call *before = waiting_.back();
    while (before != nullptr && before->asked > check.asked) {
        before = before->waiting_hook.previous;
    }
    waiting_.insert_after(before, check);
}

void Session::take_slots(const HashSlotSet &of, Session &from) {
    slots_.adopt_all(of, from.slots_);
}

} // namespace redis_client
