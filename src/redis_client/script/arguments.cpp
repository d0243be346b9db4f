#include "redis_client/script/arguments.hpp"

#include "rate_limit/algorithms/algorithm_family.hpp"
#include "rate_limit/rule/shards.hpp"

#include <endian.h>

#include <cstring>

namespace redis_client {

namespace {

using rate_limit::Quota;
using std::chrono::microseconds;

// Behind the numbers stand the time to live, how windows are aligned, and what a lease needs.
static_assert(rate_limit::ScriptArguments::most + 4 <= WireWords::most);

void add(WireWords &words, const rate_limit::ScriptArguments &arguments) {
    for (size_t i = 0; i < arguments.count; ++i) {
        words.add(arguments.numbers[i]);
    }
}

/// Those of a script that checks or charges: its first numbers and what follows them for all.
WireWords arguments_of(const Quota &quota, bool aligned,
                       const rate_limit::ScriptArguments &numbers) {
    const rate_limit::AlgorithmTraits &traits = rate_limit::traits_of(quota.algorithm);
    WireWords words;
    add(words, numbers);
    words.add(time_to_live_ms(traits.family.longest_state(quota)));
    if (quota.calendar != nullptr) {
        words.add_late_word();
    } else if (traits.takes_aligned) {
        words.add(aligned ? "aligned" : "first");
    }
    return words;
}

} // namespace

CalendarWord calendar_word(const rate_limit::Calendar &calendar, microseconds unix_time) {
    CalendarWord word;
    char *at = word.data();
    for (const microseconds boundary : calendar.around(unix_time)) {
        const auto number = static_cast<double>(boundary.count());
        uint64_t bits = 0;
        std::memcpy(&bits, &number, sizeof(bits));
        bits = htole64(bits); // as struct.unpack of Redis reads them by '<d'
        std::memcpy(at, &bits, sizeof(bits));
        at += sizeof(bits);
    }
    return word;
}

uint64_t time_to_live_ms(microseconds state) {
    return static_cast<uint64_t>(
        (std::chrono::ceil<std::chrono::milliseconds>(state) + expiry_margin).count());
}

WireWords check_arguments(const Quota &quota, bool aligned) {
    return arguments_of(quota, aligned,
                        rate_limit::traits_of(quota.algorithm).family.check_arguments(quota));
}

std::vector<WireWords> arguments_of_shards(const rate_limit::Rule &rule) {
    std::vector<WireWords> arguments;
    const uint64_t shards = rate_limit::shards_in_use(rule.quota, rule.shards);
    for (uint64_t shard = 0; shard < shards; ++shard) {
        arguments.push_back(
            check_arguments(rate_limit::share_of(rule.quota, shards, shard), rule.aligned));
    }
    return arguments;
}

WireWords debt_arguments(const Quota &quota, bool aligned) {
    return arguments_of(quota, aligned,
                        rate_limit::traits_of(quota.algorithm).family.debt_arguments(quota));
}

WireWords leasing_arguments(const Quota &quota, bool aligned, microseconds longest_lease) {
    WireWords words = check_arguments(quota, aligned);
    words.add(static_cast<uint64_t>(longest_lease.count()));
    add(words, rate_limit::traits_of(quota.algorithm).family.lease_arguments(quota));
    return words;
}

WireWords refund_arguments(const Quota &quota, const ChargeToReturn &charge) {
    const rate_limit::AlgorithmFamily &family = rate_limit::traits_of(quota.algorithm).family;
    WireWords words;
    add(words, family.refund_arguments(quota));
    words.add(static_cast<uint64_t>(charge.receipt));
    if (family.keeps_past) {
        words.add(static_cast<uint64_t>(charge.made.count()));
        words.add(static_cast<uint64_t>(charge.led_to.count()));
        words.add(static_cast<uint64_t>(family.longest_state(quota).count()));
    }
    return words;
}

} // namespace redis_client
