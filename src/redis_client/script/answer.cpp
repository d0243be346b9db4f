#include "redis_client/script/answer.hpp"

#include "rate_limit/algorithms/rule_reply.hpp"
#include "rate_limit/text/times_and_numbers.hpp"

#include <endian.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace redis_client {

namespace {

constexpr size_t number_size = sizeof(int64_t);
constexpr int64_t latest_time = int64_t{1} << 53; // of whole numbers in Lua
// A rule either leases or blocks.
using Numbers = std::array<int64_t, rate_limit::longest_reply + rate_limit::lease_reply_length>;
static_assert(rate_limit::lease_reply_length >= rate_limit::block_reply_length);

size_t reply_length(const Charge &charge) {
    return rate_limit::reply_length(charge.quota.algorithm) +
           (charge.may_lease ? rate_limit::lease_reply_length : 0) +
           (charge.blocks() ? rate_limit::block_reply_length : 0);
}

/// Whether no script of ours leases that.
bool is_impossible(rate_limit::RuleReply lease, const Charge &charge) {
    return lease[0] < 0 || static_cast<uint64_t>(lease[0]) > charge.wanted ||
           (lease[0] > 0 && !charge.is_charged) || lease[1] < 0 || lease[1] > latest_time ||
           lease[2] < -latest_time || lease[2] > latest_time;
}

/// Reads the last numbers of a rule's reply, which follow those of its verdict. Returns false if no
/// script of ours replies so.
bool read_lease(rate_limit::RuleReply reply, rate_limit::RuleReply lease, int64_t time,
                Charge &charge) {
    if (is_impossible(lease, charge)) {
        return false;
    }
    charge.leased = {.units = static_cast<uint64_t>(lease[0]),
                     .usable_for = std::chrono::microseconds(lease[1]),
                     .receipt = time + lease[2]};
    if (charge.leased.units == 0) {
        return true;
    }
    const auto after = rate_limit::verdict_after_lease(charge.quota, reply, lease);
    charge.of_counter = after.value_or(rate_limit::Verdict{});
    return after.has_value();
}

/// Whether a number of a reply may be the time that is left of a window or a block.
bool is_time_left(int64_t number) {
    return number >= 0 && number <= latest_time;
}

/// Gives the charge the window that Redis has decided in, if a calendar says the windows.
void set_window(Charge &charge, rate_limit::RuleReply reply, int64_t time) {
    if (charge.quota.calendar != nullptr && is_time_left(reply[1])) {
        charge.quota.set_window_until(std::chrono::microseconds(time + reply[1]));
    }
}

/// Whether the numbers that follow the verdict of a rule say that the client is blocked.
bool is_blocked(const Numbers &numbers, const Charge &charge) {
    return charge.blocks() && numbers[rate_limit::reply_length(charge.quota.algorithm)] != 0;
}

/// Reads the number of lua/block.lua. Returns false if no script of ours replies so.
bool read_block(int64_t left, Charge &charge) {
    if (!is_time_left(left)) {
        return false;
    }
    charge.blocked_for = std::chrono::microseconds(left);
    if (left > 0) {
        charge.of_counter = charge.verdict;
        charge.verdict =
            rate_limit::verdict_of_blocked(charge.quota, charge.verdict, charge.blocked_for);
    }
    return true;
}

/// Reads the numbers that follow those of the verdict, which is set. Returns false if no script of
/// ours replies so.
bool read_rest(const Numbers &numbers, int64_t time, Charge &charge) {
    const size_t length = rate_limit::reply_length(charge.quota.algorithm);
    const rate_limit::RuleReply reply(numbers.data(), length);
    if (charge.blocks()) {
        return read_block(numbers[length], charge);
    }
    return !charge.may_lease ||
           read_lease(reply, {numbers.data() + length, rate_limit::lease_reply_length}, time,
                      charge);
}

/// Takes a number, its lowest byte first.
int64_t take_number(std::string_view &bytes) {
    uint64_t number;
    std::memcpy(&number, bytes.data(), number_size);
    bytes.remove_prefix(number_size);
    return static_cast<int64_t>(le64toh(number));
}

} // namespace

size_t answer_size(std::span<const Charge> charges) {
    size_t numbers = 1; // the time of the check
    for (const Charge &charge : charges) {
        numbers += reply_length(charge);
    }
    return numbers * number_size;
}

bool is_failure(std::string_view answer) {
    return take_number(answer) == -1;
}

AnswerState read_answer(std::string_view answer, std::span<Charge> charges) {
    std::array<Numbers, most_rules> numbers;
    const int64_t time = take_number(answer);
    if (time < 0 || time > latest_time) {
        return AnswerState::foreign;
    }
    bool all_grant = true;
    for (size_t i = 0; i < charges.size(); ++i) {
        for (size_t n = 0; n < reply_length(charges[i]); ++n) {
            numbers[i][n] = take_number(answer);
        }
        all_grant = all_grant && (charges[i].dry_run || (rate_limit::is_granted(numbers[i]) &&
                                                         !is_blocked(numbers[i], charges[i])));
    }
    for (size_t i = 0; i < charges.size(); ++i) {
        Charge &charge = charges[i];
        const rate_limit::RuleReply reply(numbers[i].data(),
                                          rate_limit::reply_length(charge.quota.algorithm));
        charge.is_charged = all_grant && rate_limit::is_granted(reply);
        set_window(charge, reply, time);
        const auto verdict = rate_limit::verdict_of_reply(charge.quota, reply, charge.is_charged);
        charge.verdict = verdict.value_or(rate_limit::Verdict{});
        if (!verdict || !read_rest(numbers[i], time, charge)) {
            for (Charge &one : charges) {
                one.is_charged = false;
                one.leased = {};
                one.blocked_for = {};
            }
            return AnswerState::impossible;
        }
        charge.decided = std::chrono::microseconds(time);
        charge.receipt = rate_limit::receipt_of_reply(charge.quota, reply, time);
    }
    return AnswerState::good;
}

std::optional<rate_limit::Verdict> read_peek_answer(std::string_view answer,
                                                    const rate_limit::Quota &quota, Blocks blocks) {
    Numbers numbers{};
    const size_t length = rate_limit::reply_length(quota.algorithm);
    const size_t count = length + (blocks == Blocks::yes ? rate_limit::block_reply_length : 0);
    if (answer.size() != (1 + count) * number_size) {
        return std::nullopt;
    }
    take_number(answer); // the time
    for (size_t i = 0; i < count; ++i) {
        numbers[i] = take_number(answer);
    }
    const auto verdict = rate_limit::verdict_of_reply(quota, {numbers.data(), length}, false);
    const int64_t blocked_for = numbers[length]; // it is 0 without blocks
    if (!verdict || !is_time_left(blocked_for)) {
        return std::nullopt;
    }
    return blocked_for > 0 ? rate_limit::verdict_of_blocked(quota, *verdict,
                                                            std::chrono::microseconds(blocked_for))
                           : *verdict;
}

std::optional<std::chrono::microseconds> time_without_window(std::string_view error) {
    constexpr std::string_view words = "no window that the host knows at ";
    const size_t at = error.find(words);
    if (at == std::string_view::npos || !is_error_of_keys(error)) {
        return std::nullopt;
    }
    const std::string_view rest = error.substr(at + words.size());
    const auto time = rate_limit::parse_whole_number(
        rest.substr(0, rest.find_first_not_of("0123456789")), latest_time);
    return time ? std::optional(std::chrono::microseconds(*time)) : std::nullopt;
}

bool is_error_of_hash_slot(std::string_view error) {
    constexpr std::string_view words[] = {"MOVED ", "ASK ", "TRYAGAIN ", "CROSSSLOT ",
                                          "CLUSTERDOWN Hash slot "};
    return std::ranges::any_of(words,
                               [&](std::string_view word) { return error.starts_with(word); }) ||
           error.find("attempted to access a non local key") != std::string_view::npos;
}

bool is_error_of_replica(std::string_view error) {
    return error.find("READONLY ") != std::string_view::npos;
}

/// A user may be permitted to read, and not to write: Redis 7 says that without a code.
bool is_error_of_writes(std::string_view error) {
    constexpr std::string_view words[] = {"OOM ",    "MISCONF ",  "NOREPLICAS ",
                                          "NOPERM ", "READONLY ", "can't run this command"};
    return std::ranges::any_of(
        words, [&](std::string_view word) { return error.find(word) != std::string_view::npos; });
}

bool is_error_of_keys(std::string_view error) {
    constexpr std::string_view script = "user_script:";
    for (size_t at = error.find(script); at != std::string_view::npos;
         at = error.find(script, at + 1)) {
        std::string_view rest = error.substr(at + script.size());
        rest.remove_prefix(std::min(rest.find_first_not_of("0123456789"), rest.size()));
        // what Redis itself says of a command begins with a capital letter
        if (rest.size() > 2 && rest.starts_with(": ") && rest[2] >= 'a' && rest[2] <= 'z') {
            return true;
        }
    }
    return error.find("WRONGTYPE") != std::string_view::npos || is_error_of_hash_slot(error);
}

} // namespace redis_client
