#include "redis_client/control/live_store.hpp"

#include "rate_limit/rule/shards.hpp"
#include "rate_limit/text/key.hpp"
#include "rate_limit/text/times_and_numbers.hpp"
#include "redis_client/script/lua_source.hpp"
#include "redis_client/wire/hash_slot.hpp"
#include "redis_client/wire/resp.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <limits>

namespace redis_client {

namespace {

using rate_limit::Override;
using std::chrono::microseconds;

constexpr std::string_view action_names[] = {"numbers", "ban", "exempt"}; // by Override::Action
constexpr std::string_view deleted = "deleted";
constexpr std::string_view reset = "reset";
constexpr std::string_view none = "-";

std::string hex(uint64_t number) {
    std::array<char, 16> digits;
    const char *end = std::to_chars(digits.data(), digits.data() + digits.size(), number, 16).ptr;
    return {digits.data(), static_cast<size_t>(end - digits.data())};
}

std::string name_in_redis(const LiveName &name) {
    const std::string zone = " " + std::string(name.zone);
    const std::string key = " " + std::string(name.encoded_key);
    if (name.is_reset) {
        return "X" + zone + key;
    }
    const std::string rule = " " + std::string(name.rule);
    if (name.encoded_key.empty()) {
        return "R" + zone + rule;
    }
    return name.rule.empty() ? "K" + zone + key : "KR" + zone + key + rule;
}

/// Returns nothing if it is not a name of ours.
std::optional<LiveName> parse_name(std::string_view text) {
    const std::string_view kind = next_word(text);
    LiveName name{.zone = next_word(text), .encoded_key = {}, .rule = {}, .is_reset = kind == "X"};
    const bool has_key = kind == "K" || kind == "KR" || kind == "X";
    const bool has_rule = kind == "R" || kind == "KR";
    if (has_key) {
        name.encoded_key = next_word(text);
    }
    if (has_rule) {
        name.rule = next_word(text);
    }
    const bool is_whole = text.empty() && !name.zone.empty() &&
                          name.encoded_key.empty() != has_key &&
                          rate_limit::is_rule_name(name.rule) == has_rule;
    return is_whole && (has_key || has_rule) ? std::optional(name) : std::nullopt;
}

/// Makes one word of a text, which may be empty or hold anything.
std::string encode_text(std::string_view text) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    text = text.substr(0, longest_live_text);
    std::string encoded;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte > ' ' && byte <= '~' && byte != '%' && text != none) {
            encoded += c;
        } else {
            encoded += {'%', digits[byte >> 4], digits[byte & 15]};
        }
    }
    return encoded.empty() ? std::string(none) : encoded;
}

std::string decode_text(std::string_view word) {
    std::string text;
    if (word == none) {
        return text;
    }
    while (!word.empty()) {
        unsigned byte = 0;
        const std::string_view code = word.substr(1, 2);
        const bool is_code =
            word.front() == '%' &&
            std::from_chars(code.data(), code.data() + code.size(), byte, 16).ptr ==
                code.data() + 2;
        text += is_code ? static_cast<char>(byte) : word.front();
        word.remove_prefix(is_code ? 3 : 1);
    }
    return text;
}

std::string number_or_none(std::optional<uint64_t> number) {
    return number ? std::to_string(*number) : std::string(none);
}

constexpr uint64_t largest_number = uint64_t{1} << 53; // of whole numbers in Lua

/// Reads a number, or none. Returns false if the word is neither.
bool parse_number(std::string_view word, std::optional<uint64_t> &number) {
    number = rate_limit::parse_whole_number(word, largest_number);
    return number.has_value() || word == none;
}

std::optional<microseconds> time_of(ReplyView reply) {
    const auto number = reply.number();
    return number && *number >= 0 ? std::optional(microseconds(*number)) : std::nullopt;
}

/// Reads a record into the change whose name is set. Returns false if it is none of ours.
bool parse_record(std::string_view record, LiveChange &change) {
    Override &what = change.override.what;
    const auto version = rate_limit::parse_whole_number(next_word(record), largest_number);
    const std::string_view words = record;
    std::optional<uint64_t> expires_at;
    std::optional<uint64_t> updated_at;
    const bool has_expiry = parse_number(next_word(record), expires_at);
    const std::string_view action = next_word(record);
    const bool has_numbers =
        parse_number(next_word(record), what.limit) && parse_number(next_word(record), what.burst);
    if (!version || !has_expiry || !has_numbers || !parse_number(next_word(record), updated_at)) {
        return false;
    }
    change.override.updated_at = microseconds(updated_at.value_or(0));
    change.override.by = decode_text(next_word(record));
    change.override.note = decode_text(next_word(record));
    const auto first = rate_limit::parse_whole_number(record, largest_number);
    change.version = first.value_or(*version);
    change.record.words = first ? words.substr(0, words.rfind(' ')) : words;
    what.expires_at = microseconds(expires_at.value_or(0));
    change.is_tombstone = action == deleted;
    if (change.name.is_reset || change.is_tombstone) {
        return change.name.is_reset ? action == reset : true;
    }
    const auto *const known = std::ranges::find(action_names, action);
    what.action = static_cast<Override::Action>(known - std::begin(action_names));
    return known != std::end(action_names);
}

} // namespace

LiveStore::LiveStore(std::string_view prefix) {
    const std::string begin = std::string(prefix) + "{live}:";
    head_ = begin + "head";
    log_ = begin + "log";
    data_ = begin + "data";
    expiry_ = begin + "expiry";
    rules_ = {begin + "rules", begin + "calendar_rules"};
    hash_slot_ = redis_client::hash_slot(head_);
}

namespace {

/// Writes a call of a script that goes in full: it is rare, and the first one after a restart of
/// Redis must not fail.
bool write_call(ByteQueue &out, std::string_view script,
                std::initializer_list<std::string_view> keys,
                std::span<const std::string> arguments) {
    const std::string code = without_comments(script);
    size_t bytes = code.size();
    for (const std::string_view key : keys) {
        bytes += key.size();
    }
    for (const std::string &argument : arguments) {
        bytes += argument.size();
    }
    constexpr size_t room_for_count = 20;
    CommandWriter command(out, 3 + keys.size() + arguments.size(), bytes + room_for_count);
    if (!command.ok()) {
        return false;
    }
    command.word("EVAL");
    command.word(code);
    command.word(keys.size());
    for (const std::string_view key : keys) {
        command.word(key);
    }
    for (const std::string &argument : arguments) {
        command.word(argument);
    }
    return true;
}

} // namespace

bool LiveStore::write_record(ByteQueue &out, const LiveName &name, std::string_view action,
                             const LiveOrder &order, uint64_t epoch, const LiveKnown &known) const {
    const std::string arguments[] = {
        name_in_redis(name),
        std::string(action),
        number_or_none(order.what.limit) + " " + number_or_none(order.what.burst),
        std::to_string(order.expires_in.value_or(microseconds{0}).count()),
        encode_text(order.by) + " " + encode_text(order.note),
        hex(epoch),
        hex(known.epoch) + " " + std::to_string(known.version),
    };
    return write_call(out, lua_live_write(), {head_, log_, data_, expiry_}, arguments);
}

bool LiveStore::write_put(ByteQueue &out, const LiveName &name, const LiveOrder &order,
                          uint64_t epoch, const LiveKnown &known) const {
    return write_record(out, name, action_names[static_cast<size_t>(order.what.action)], order,
                        epoch, known);
}

bool LiveStore::write_delete(ByteQueue &out, const LiveName &name, std::string_view by,
                             uint64_t epoch, const LiveKnown &known) const {
    LiveOrder order{};
    order.by = by;
    return write_record(out, name, deleted, order, epoch, known);
}

bool LiveStore::write_reset(ByteQueue &out, const LiveName &name, std::string_view by,
                            uint64_t epoch, const LiveKnown &known) const {
    LiveOrder order{};
    order.by = by;
    return write_record(out, name, reset, order, epoch, known);
}

bool LiveStore::write_back(ByteQueue &out, uint64_t epoch, std::span<const LiveLost> lost) const {
    std::vector<std::string> arguments{hex(epoch)};
    arguments.reserve(1 + 3 * lost.size());
    for (const auto &[record, version] : lost) {
        arguments.emplace_back(record.name);
        arguments.push_back(std::to_string(version));
        arguments.emplace_back(record.words);
    }
    return write_call(out, lua_live_restore(), {head_, log_, data_, expiry_}, arguments);
}

bool LiveStore::write_lookup(ByteQueue &out, std::span<const LiveName> names) const {
    std::vector<std::string> arguments(names.size());
    std::ranges::transform(names, arguments.begin(), name_in_redis);
    return write_call(out, lua_live_records(), {data_}, arguments);
}

bool LiveStore::write_head_query(ByteQueue &out) const {
    return write_command(out, {"GET", head_});
}

bool LiveStore::write_name_count_query(ByteQueue &out) const {
    return write_command(out, {"ZCARD", log_});
}

bool LiveStore::write_record_count_query(ByteQueue &out) const {
    return write_command(out, {"HLEN", data_});
}

bool LiveStore::write_changes_query(ByteQueue &out, uint64_t since, std::string_view zone) const {
    const std::string arguments[] = {std::to_string(since), std::to_string(records_of_page),
                                     std::string(zone)};
    return write_call(out, lua_live_changes(), {head_, log_, data_}, arguments);
}

bool LiveStore::write_registration(ByteQueue &out, Registry registry,
                                   std::span<const rate_limit::Rule *const> rules,
                                   microseconds redis_now) const {
    const std::string &key = rules_[static_cast<size_t>(registry)];
    std::vector<std::string> fields;
    size_t bytes = key.size();
    const std::string time = std::to_string(redis_now.count());
    for (const rate_limit::Rule *rule : rules) {
        fields.push_back(rule->zone + " " + rate_limit::counter_name(*rule) + " " +
                         std::to_string(rule->shards));
        bytes += fields.back().size() + time.size();
    }
    constexpr std::string_view name = "HSET";
    CommandWriter command(out, 2 + 2 * fields.size(), name.size() + bytes);
    if (!command.ok()) {
        return false;
    }
    command.word(name);
    command.word(key);
    for (const std::string &field : fields) {
        command.word(field);
        command.word(time);
    }
    return true;
}

bool LiveStore::write_counters_query(ByteQueue &out, Registry registry, uint64_t cursor,
                                     std::string_view zone) const {
    const std::string arguments[] = {std::string(zone),
                                     std::to_string(microseconds(registered_for).count()),
                                     std::to_string(cursor), std::to_string(records_of_page)};
    return write_call(out, lua_live_rules(), {rules_[static_cast<size_t>(registry)]}, arguments);
}

uint64_t new_epoch(World &world) {
    uint64_t number = 0;
    world.random_bytes({reinterpret_cast<unsigned char *>(&number), sizeof(number)});
    return number | 1; // never 0
}

bool write_time_query(ByteQueue &out) {
    return write_command(out, {"TIME"});
}

std::optional<microseconds> read_time(ReplyView reply) {
    if (reply.size() != 2) {
        return std::nullopt;
    }
    constexpr uint64_t million = 1'000'000;
    const auto seconds =
        rate_limit::parse_whole_number(reply[0].text().value_or(""), largest_number / million);
    const auto rest = rate_limit::parse_whole_number(reply[1].text().value_or(""), million - 1);
    return seconds && rest ? std::optional(microseconds(*seconds * million + *rest)) : std::nullopt;
}

std::optional<LiveWritten> read_written(ReplyView reply) {
    if (reply.size() != 3) {
        return std::nullopt;
    }
    const auto time = time_of(reply[0]);
    const auto version = reply[1].number();
    const auto expires_at = time_of(reply[2]);
    if (!time || !version || !expires_at) {
        return std::nullopt;
    }
    return LiveWritten{.time = *time, .is_written = *version != 0, .expires_at = *expires_at};
}

bool read_written_back(ReplyView reply) {
    return reply.number().has_value();
}

std::optional<LiveLookup> read_lookup(ReplyView reply) {
    const auto time = reply.size() > 0 ? time_of(reply[0]) : std::nullopt;
    if (!time) {
        return std::nullopt;
    }
    LiveLookup found{.time = *time,
                     .overrides = std::vector<std::optional<LiveOverride>>(reply.size() - 1)};
    for (size_t i = 0; i < found.overrides.size(); ++i) {
        LiveChange record;
        const auto text = reply[i + 1].text();
        if (text && parse_record(*text, record) && !record.is_tombstone &&
            !record.override.what.has_expired(*time)) {
            found.overrides[i] = std::move(record.override);
        }
    }
    return found;
}

std::optional<LiveHead> read_head(ReplyView reply) {
    std::string_view text = reply.text().value_or(std::string_view());
    const std::string_view digits = next_word(text);
    const auto version = rate_limit::parse_whole_number(next_word(text), largest_number);
    const auto floor = rate_limit::parse_whole_number(text, largest_number);
    uint64_t epoch = 0;
    const char *end = digits.data() + digits.size();
    const bool is_epoch = std::from_chars(digits.data(), end, epoch, 16).ptr == end;
    if (reply.is_error() || !is_epoch || epoch == 0 || !version || !floor) {
        return std::nullopt;
    }
    return LiveHead{.epoch = epoch, .version = *version, .floor = *floor};
}

std::optional<LivePage> read_changes(ReplyView reply) {
    constexpr size_t before_changes = 4;
    const size_t size = reply.size();
    const auto time = size >= before_changes ? time_of(reply[0]) : std::nullopt;
    if (!time || (size - before_changes) % 2 != 0) {
        return std::nullopt;
    }
    LivePage page{.time = *time,
                  .head = read_head(reply[1]),
                  .next = {},
                  .is_complete = reply[3].number() == 1,
                  .changes = {}};
    if (const auto next = reply[2].text()) {
        page.next = rate_limit::parse_whole_number(*next, largest_number);
    }
    page.changes.reserve((size - before_changes) / 2);
    for (size_t i = before_changes; i < size; i += 2) {
        const std::string_view text = reply[i].text().value_or(std::string_view());
        const auto name = parse_name(text);
        if (!name) {
            continue;
        }
        LiveChange change;
        change.name = *name;
        change.record.name = text;
        const auto record = reply[i + 1].text();
        if (record && parse_record(*record, change)) {
            page.changes.push_back(std::move(change));
        } else {
            page.is_readable = false;
        }
    }
    return page;
}

std::optional<CounterPage> read_counters(ReplyView reply) {
    constexpr uint64_t largest_cursor = std::numeric_limits<uint64_t>::max();
    const auto next = rate_limit::parse_whole_number(
        reply.size() > 0 ? reply[0].text().value_or("") : "", largest_cursor);
    if (!next) {
        return std::nullopt;
    }
    CounterPage page{.next = *next, .counters = {}};
    for (size_t i = 1; i < reply.size(); ++i) {
        std::string_view field = reply[i].text().value_or(std::string_view());
        (void)next_word(field);
        const std::string_view name = next_word(field);
        const auto shards = rate_limit::parse_whole_number(field, rate_limit::most_shards);
        if (!name.empty() && shards && *shards > 0) {
            page.counters.push_back({.name = name, .shards = *shards});
        }
    }
    return page;
}

} // namespace redis_client
