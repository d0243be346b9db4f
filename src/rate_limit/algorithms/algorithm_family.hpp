// What the rest of the program asks of an algorithm. Each family of algorithms answers in a file of
// its own, which has the name of its script: fixed_window.cpp, sliding_log.cpp, sliding_window.cpp,
// bucket.cpp and concurrency.cpp.
#pragma once

#include "rate_limit/algorithms/algorithm.hpp"
#include "rate_limit/algorithms/local_decision.hpp"

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace rate_limit {

/// A few numbers of a script's ARGV.
struct ScriptArguments {
    template <std::same_as<uint64_t>... Number>
    ScriptArguments(Number... number) : numbers{number...}, count(sizeof...(number)) {}

    static constexpr size_t most = 5;
    std::array<uint64_t, most> numbers;
    size_t count;
};

/// A verdict of Redis, as record_verdict() takes it to be this host's.
struct RedisVerdict {
    const Verdict &verdict;
    const Quota &quota; // the numbers by which Redis decided
    Quota part;         // this host's part of them; its cost is that part of what was charged
    uint64_t used;      // how many units of that part are taken: more than 0
    std::chrono::microseconds asked; // when the check was sent
};

struct AlgorithmFamily {
    /// The text of lua/<name>.lua. It is empty if the compiler does not embed files.
    std::string_view (*script)();

    /// Names the family among the functions of lua/any_rules.lua. No other family has it.
    char letter;

    /// The first numbers of the script's ARGV, those before the time to live of the key.
    ScriptArguments (*check_arguments)(const Quota &quota);

    /// The same of a settlement that charges what a request took beyond its charge.
    ScriptArguments (*debt_arguments)(const Quota &quota);

    /// The ARGV of the script's lease that follow the longest time of a lease.
    ScriptArguments (*lease_arguments)(const Quota &quota);

    /// The ARGV of the script's refund that stand before the receipt.
    ScriptArguments (*refund_arguments)(const Quota &quota);

    /// Whether the refund has a second key, which keeps the past, and the ARGV that it needs.
    bool keeps_past = false;

    /// How long the state in a key may count.
    std::chrono::microseconds (*longest_state)(const Quota &quota);

    /// These two do the work of the functions of these names in rule_reply.hpp. The reply has as
    /// many numbers as the table says, none of them beyond 2^53.
    std::optional<Verdict> (*verdict_of_reply)(const Quota &quota, RuleReply reply, bool charged);
    int64_t (*receipt_of_reply)(const Quota &quota, RuleReply reply, int64_t now);

    /// Makes of a reply what the script would have replied after it leased units, too: `lease` are
    /// the numbers that follow. Null if the script cannot lease.
    void (*add_lease)(const Quota &quota, std::span<int64_t> reply, RuleReply lease) = nullptr;

    /// These two do the work of the functions of these names in local.hpp. The quota has a
    /// capacity.
    LocalDecision (*decide_locally)(const std::optional<Record> &known, const Quota &quota,
                                    bool aligned, const Now &now);
    std::optional<Record> (*record_verdict)(const std::optional<Record> &known,
                                            const RedisVerdict &redis);

    /// These two do the work of the functions of these names in local.hpp. Null: nothing is
    /// settled, and no permits are held.
    std::optional<Record> (*settle_locally)(const std::optional<Record> &known, const Quota &quota,
                                            const LocalSettlement &settlement, bool aligned,
                                            const Now &now) = nullptr;
    std::optional<Record> (*release_permits)(const std::optional<Record> &known, const Quota &quota,
                                             std::chrono::microseconds taken_at,
                                             std::chrono::microseconds now) = nullptr;
};

} // namespace rate_limit
