// What the session of a cluster node does when keys, and with them checks, move to another node.
#include "redis_client/session/session.hpp"

#include <utility>

namespace redis_client {

/// Another node has the key, so this one has charged nothing. The commands for which somebody still
/// waits are asked there.
void Session::redirect(Command &first, const Redirect &to, std::string_view error, Time now) {
    breaker_.succeed();
    redirects_->on_redirect(*this, to);
    if (first.kind == Command::Kind::renewal) {
        if (to.kind == Redirect::Kind::ask && first.has_company()) {
            // The other node may have some of the keys only.
            permit_commands_.send_apart(first, now);
            return;
        }
        if (to.kind == Redirect::Kind::ask && !first.needs_asking) {
            hand_over(first); // the permits stay here; only this renewal goes elsewhere
            redirects_->ask_again(first, *this, to);
            return;
        }
        permit_commands_.disconnected();
    }
    for (Command *next = &first; next != nullptr;) {
        Command &command = *std::exchange(next, next->next_in_batch);
        command.next_in_batch = nullptr;
        if (!command.is_wanted()) {
            drop(command);
        } else if (++command.redirects > most_redirects) {
            problem_.note_of_keys(command, "too many redirects", error);
            fail(command, Failure::reply, now);
        } else {
            hand_over(command);
            redirects_->ask_again(command, *this, to);
        }
    }
}

/// Removes a command that another session is to take over.
void Session::hand_over(Command &command) {
    pipeline_.let_go();
    settlements_.let_go(command);
    if (command.callbacks != nullptr) {
        waiting_.remove(command);
    }
}

Command *Session::give_away() {
    Command *command = waiting_.front();
    if (command != nullptr) {
        hand_over(*command);
    }
    return command;
}

void Session::take_over(Command &command, Redirect::Kind kind, Time now) {
    Session &from = *command.session;
    pipeline_.take_over(command);
    command.needs_asking = kind == Redirect::Kind::ask;
    for (const Charge &charge : command.charges) {
        if (charge.permit != nullptr) {
            permit_commands_.permits().adopt(*charge.permit);
        }
    }
    if (command.callbacks != nullptr) {
        wait(command);
    }
    if (command.kind == Command::Kind::settlement) {
        settlements_.take_over(command);
        if (!pipeline_.is_open() || !pipeline_.send(command, now)) {
            settlements_.wait_again(command);
        }
    } else if (unreachable_) {
        fail(command, Failure::connect, now);
    } else if (command.kind == Command::Kind::check) {
        if (pipeline_.is_open()) {
            to_send_.add(command);
        }
    } else if (command.kind == Command::Kind::renewal) {
        permit_commands_.resend_renewal(command, from.permit_commands_, now);
    } else if (!pipeline_.is_open() || !pipeline_.send(command, now)) {
        permit_commands_.finish(command, false);
    }
}

/// Lets a check wait in the order of asking. A check from elsewhere may be older than others.
void Session::wait(Command &check) {
    Command *before = waiting_.back();
    while (before != nullptr && before->asked > check.asked) {
        before = before->waiting_hook.previous;
    }
    waiting_.insert_after(before, check);
}

void Session::take_permits(const HashSlotSet &of, Session &from) {
    permit_commands_.permits().adopt_all(of, from.permit_commands_.permits());
}

} // namespace redis_client
