#include "redis_client/session/send_queue.hpp"

#include "redis_client/script/answer.hpp"
#include "redis_client/script/commands.hpp"

#include <algorithm>
#include <utility>

namespace redis_client {

namespace {

/// Whether one call of a script can decide both checks: the numbers of their rules are the same,
/// and neither has an argument of its own.
bool can_share_batch(const Command &check, const Command &other) {
    const auto same = [](const Charge &charge, const Charge &other_charge) {
        return charge.arguments == other_charge.arguments &&
               charge.dry_run == other_charge.dry_run && charge.block == other_charge.block;
    };
    return check.hash_slot == other.hash_slot && check.needs_asking == other.needs_asking &&
           std::ranges::equal(check.charges, other.charges, same);
}

/// How long Redis works for a charge, in charges of one unit.
size_t work_of(const Charge &charge) {
    constexpr uint64_t entries_like_one_charge = 16;
    const bool has_entries = rate_limit::traits_of(charge.quota.algorithm).keeps_each_unit;
    return 1 + (has_entries ? (charge.quota.cost + charge.wanted) / entries_like_one_charge : 0);
}

/// A run is to stay below a millisecond, and its answers within a reply.
size_t longest_batch(const Command &check) {
    constexpr size_t most_work = 64;
    constexpr size_t room_for_failure = 512;
    size_t work = 0;
    for (const Charge &charge : check.charges) {
        work += work_of(charge);
    }
    const size_t checks = std::min(most_work / std::max<size_t>(work, 1),
                                   (Reply::longest_text - room_for_failure) / check.reply_size);
    return std::max<size_t>(checks, 1);
}

} // namespace

void SendQueue::add(Command &check) {
    check.is_to_send = true;
    checks_.push_back(check);
}

void SendQueue::remove(Command &check) {
    checks_.remove(check);
    check.is_to_send = false;
}

Command &SendQueue::take_batch(const ScriptLibrary &scripts) {
    Command &first = *checks_.front();
    remove(first);
    const bool can_share = shares_batches_ && scripts.batch(shape_of(first.charges)) != nullptr;
    size_t room = can_share ? longest_batch(first) - 1 : 0;
    size_t looks = 256; // so that many checks that share nothing do not each look at all others
    Command *last = &first;
    for (Command *check = checks_.front(); check != nullptr && room > 0 && looks > 0; --looks) {
        Command &other = *std::exchange(check, check->sending_hook.next);
        if (can_share_batch(first, other)) {
            remove(other);
            last->next_in_batch = &other;
            last = &other;
            --room;
        }
    }
    return first;
}

} // namespace redis_client
