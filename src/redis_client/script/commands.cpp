#include "redis_client/script/commands.hpp"

#include "rate_limit/text/key.hpp"
#include "redis_client/script/arguments.hpp"

namespace redis_client {

namespace {

constexpr size_t longest_number = 20;

/// A command with room for `words` more words of `bytes` bytes after the script and the number of
/// keys.
class ScriptCommand : public CommandWriter {
  public:
    ScriptCommand(ByteQueue &out, const Script &script, Sending sending, size_t keys, size_t words,
                  size_t bytes)
        : CommandWriter(out, 3 + words, bytes + script.source.size() + script.sha1.size()) {
        if (ok()) {
            word(sending == Sending::in_full ? "EVAL" : "EVALSHA");
            word(sending == Sending::in_full ? script.source : script.sha1);
            word(keys);
        }
    }
};

std::string_view permit_name(const Charge &charge) {
    return charge.permit != nullptr ? charge.permit->name : std::string_view();
}

/// Writes the keys of a charge's rule.
void write_keys(CommandWriter &command, const Charge &charge) {
    command.word(charge.redis_key);
    if (charge.blocks()) {
        command.word(charge.redis_key, rate_limit::block_suffix);
    }
}

/// How many bytes a late word adds to the words.
size_t size_of_late_word(const WireWords &words) {
    return words.has_late_word() ? sizeof(CalendarWord) : 0;
}

/// Writes the words, and in their late word in which windows of the calendar this host is now.
void write_words(CommandWriter &command, const WireWords &words,
                 const rate_limit::Calendar *calendar, const UnixClock &clock) {
    if (!words.has_late_word()) {
        command.wire(words);
        return;
    }
    const CalendarWord word = calendar_word(*calendar, clock());
    command.wire(words, {word.data(), word.size()});
}

/// Writes the arguments of a charge's rule. A cost that the rule can never grant begins no block.
void write_arguments(CommandWriter &command, const Charge &charge, const UnixClock &clock) {
    write_words(command, *charge.arguments, charge.quota.calendar, clock);
    if (charge.permit != nullptr) {
        command.word(charge.permit->name);
    }
    if (charge.blocks()) {
        const bool begins = charge.quota.cost <= charge.quota.capacity();
        command.word(begins ? static_cast<uint64_t>(charge.block.count()) : 0);
    }
}

} // namespace

ScriptShape shape_of(std::span<const Charge> charges) {
    ScriptShape shape;
    for (const Charge &charge : charges) {
        shape.add({.algorithm = charge.quota.algorithm,
                   .dry_run = charge.dry_run,
                   .may_lease = charge.may_lease,
                   .blocks = charge.blocks()});
    }
    return shape;
}

bool write_checks(ByteQueue &out, const Script &script, Sending sending, const Command &first,
                  const UnixClock &clock) {
    size_t keys = 0;
    size_t words = 0;
    size_t bytes = 0;
    for (const Command *check = &first; check != nullptr; check = check->next_in_batch) {
        for (const Charge &charge : check->charges) {
            ++keys;
            words += charge.may_lease ? 1 : 0;
            bytes += charge.redis_key.size() + (charge.may_lease ? longest_number : 0);
            if (charge.blocks()) {
                ++keys;
                bytes += charge.redis_key.size() + rate_limit::block_suffix.size();
            }
        }
    }
    for (const Charge &charge : first.charges) {
        words += charge.arguments->count() + (charge.permit != nullptr ? 1 : 0) +
                 (charge.blocks() ? 1 : 0);
        bytes += charge.arguments->bytes().size() + size_of_late_word(*charge.arguments) +
                 permit_name(charge).size() + (charge.blocks() ? longest_number : 0);
    }
    ScriptShape::Letters letters;
    std::string_view names;
    if (script.is_of_any_rules) {
        names = shape_of(first.charges).letters(letters);
        ++words;
        bytes += names.size();
    }
    ScriptCommand command(out, script, sending, keys, keys + words, bytes);
    if (!command.ok()) {
        return false;
    }
    for (const Command *check = &first; check != nullptr; check = check->next_in_batch) {
        for (const Charge &charge : check->charges) {
            write_keys(command, charge);
        }
    }
    if (script.is_of_any_rules) {
        command.word(names);
    }
    for (const Charge &charge : first.charges) {
        write_arguments(command, charge, clock);
    }
    for (const Command *check = &first; check != nullptr; check = check->next_in_batch) {
        for (const Charge &charge : check->charges) {
            if (charge.may_lease) {
                command.word(charge.wanted);
            }
        }
    }
    return true;
}

bool write_release(ByteQueue &out, const Script &script, Sending sending, const Permit &permit) {
    ScriptCommand command(out, script, sending, 1, 2, permit.redis_key.size() + permit.name.size());
    if (!command.ok()) {
        return false;
    }
    command.word(permit.redis_key);
    command.word(permit.name);
    return true;
}

bool write_renewal(ByteQueue &out, const Script &script, std::span<Permit *const> permits) {
    size_t bytes = 0;
    for (const Permit *permit : permits) {
        bytes += permit->redis_key.size() + permit->name.size() + 2 * longest_number;
    }
    ScriptCommand command(out, script, Sending::in_full, permits.size(), 4 * permits.size(), bytes);
    if (!command.ok()) {
        return false;
    }
    for (const Permit *permit : permits) {
        command.word(permit->redis_key);
    }
    for (const Permit *permit : permits) {
        const std::chrono::microseconds window = permit->window;
        command.word(static_cast<uint64_t>(window.count()));
        command.word(time_to_live_ms(window));
        command.word(permit->name);
    }
    return true;
}

bool write_settlements(ByteQueue &out, const Script &script, Sending sending,
                       const SettlementList &settlements, const UnixClock &clock) {
    size_t keys = 0;
    size_t words = 0;
    size_t bytes = 0;
    for (const Settlement *one = settlements.front(); one != nullptr; one = one->hook.next) {
        keys += one->keeps_past() ? 2 : 1;
        words += one->arguments.count();
        bytes += 2 * one->redis_key.size() + rate_limit::past_suffix.size() +
                 one->arguments.bytes().size() + size_of_late_word(one->arguments);
    }
    ScriptCommand command(out, script, sending, keys, keys + words, bytes);
    if (!command.ok()) {
        return false;
    }
    for (const Settlement *one = settlements.front(); one != nullptr; one = one->hook.next) {
        command.word(one->redis_key);
        if (one->keeps_past()) {
            command.word(one->redis_key,
                         one->is_on_one_key ? std::string_view() : rate_limit::past_suffix);
        }
    }
    for (const Settlement *one = settlements.front(); one != nullptr; one = one->hook.next) {
        write_words(command, one->arguments, one->calendar, clock);
    }
    return true;
}

} // namespace redis_client
