#include "redis_client/session/pipeline.hpp"

#include "redis_client/script/commands.hpp"
#include "redis_client/script/script.hpp"

#include <algorithm>
#include <utility>

namespace redis_client {

namespace {

/// Whether the login has loaded the script of the settlement. It may not have that of a refund that
/// is due because another rule denies.
bool is_loaded(const Settlement &settlement, const SessionSettings &settings) {
    return settlement.counters != nullptr ||
           std::ranges::find(settings.settled, settlement.algorithm) != settings.settled.end();
}

} // namespace

void Pipeline::open() {
    is_open_ = true;
}

void Pipeline::close() {
    is_open_ = false;
    output_.clear();
}

Command *Pipeline::new_command(Command::Kind kind) {
    Command *command = group_.commands.take();
    if (command != nullptr) {
        command->kind = kind;
        command->session = &owner_;
        ++pending_;
        group_.background_commands += kind == Command::Kind::check ? 0 : 1;
    }
    return command;
}

void Pipeline::recycle(Command &command) {
    --pending_;
    group_.background_commands -= command.kind == Command::Kind::check ? 0 : 1;
    command.late_charges.reset(); // rather than when the command is taken again
    group_.commands.give_back(command);
}

void Pipeline::let_go() {
    --pending_;
}

void Pipeline::take_over(Command &command) {
    ++pending_;
    command.session = &owner_;
    command.is_sent = command.sent_in_full = false;
}

bool Pipeline::send(Command &first, Time now) {
    if (first.kind == Command::Kind::settlement &&
        !is_loaded(*first.settlements.front(), group_.settings)) {
        first.sent_in_full = true; // a check of the key must not overtake it
    }
    const Sending sending = first.sent_in_full ? Sending::in_full : Sending::by_name;
    bool written = false;
    if (first.needs_asking && !send_asking(now)) {
        return false;
    }
    if (first.kind == Command::Kind::settlement) {
        const Settlement &settlement = *first.settlements.front();
        written = write_settlements(
            output_, group_.scripts.settlement(settlement.algorithm, settlement.kind), sending,
            first.settlements, group_.unix_clock);
    } else if (first.kind == Command::Kind::release) {
        written = write_release(output_, group_.scripts.release(), sending, *first.permit);
    } else {
        const ScriptShape shape = shape_of(first.charges);
        const Script &script = first.next_in_batch != nullptr ? *group_.scripts.batch(shape)
                                                              : group_.scripts.check(shape);
        written = write_checks(output_, script, sending, first, group_.unix_clock);
    }
    if (written) {
        queue(first, now);
    }
    return written;
}

bool Pipeline::send_asking(Time now) {
    Command *asking = new_command(Command::Kind::asking);
    if (asking == nullptr) {
        return false;
    }
    if (!write_command(output_, {"ASKING"})) {
        recycle(*asking);
        return false;
    }
    queue(*asking, now);
    return true;
}

/// The command was written to the output, and its reply is expected from here on.
void Pipeline::queue(Command &first, Time now) {
    for (Command *command = &first; command != nullptr; command = command->next_in_batch) {
        command->sent = now;
        command->is_sent = true;
    }
    first.end_of_command = output_.appended();
    to_answer_.push_back(first);
}

Command *Pipeline::next_to_answer() const {
    return to_answer_.front();
}

Command *Pipeline::take_answered() {
    Command *command = to_answer_.front();
    if (command != nullptr) {
        to_answer_.remove(*command);
    }
    return command;
}

} // namespace redis_client
