// gcra, token_bucket and leaky_bucket: see lua/gcra.lua.
//
// A record's values[0]  the time at which all units are there again, microseconds
//                   [1]  its fraction, in so many parts of a microsecond as values[2] says
//                   [2]  the parts: the limit that led to it

#include "algorithm_helpers.hpp"
#include "embed.hpp"

#include <algorithm>

EMBED(redis_rate_limit_lua_gcra, "lua/gcra.lua");

namespace rate_limit {

namespace {

using std::chrono::microseconds;

Wide divide_up(Wide dividend, Wide divisor) {
    return (dividend + divisor - 1) / divisor;
}

microseconds to_microseconds(Wide time) {
    return microseconds(static_cast<int64_t>(time));
}

/// The reply is { ahead, fraction, moved back }: how far the time at which all units are there lies
/// ahead, and how far refunds have moved it back.
std::optional<Verdict> verdict_of(const Quota &quota, RuleReply reply, bool charged) {
    const Interval interval(quota);
    const Wide parts = static_cast<Wide>(interval.parts);
    if (reply[1] < 0 || reply[1] >= parts || reply[2] < 0) {
        return std::nullopt;
    }
    const Wide length = static_cast<Wide>(interval.length);
    const Wide ahead = without_decision(reply[0]) * parts + reply[1];
    const Wide full = static_cast<Wide>(quota.capacity()) * length;
    if (reply[0] >= 0 && ahead > full) {
        return std::nullopt;
    }
    const auto wait_for = [&](Wide units) { // the time until so many are there
        const Wide wait = ahead - (full - units * length);
        return to_microseconds(divide_up(std::max<Wide>(wait, 0), parts));
    };
    Verdict verdict{.decision = decision_of(quota, reply[0] >= 0)};
    verdict.remaining = static_cast<uint64_t>(std::max<Wide>(full - ahead, 0) / length);
    if (verdict.decision == Decision::denied) {
        verdict.retry_after = wait_for(static_cast<Wide>(quota.cost));
    }
    if (verdict.remaining < quota.capacity()) {
        verdict.next_unit = wait_for(static_cast<Wide>(verdict.remaining) + 1);
    }
    verdict.reset = to_microseconds(divide_up(ahead, parts));
    if (traits_of(quota.algorithm).takes_delay && charged && quota.cost > 0) {
        const Wide with_it = ahead + static_cast<Wide>(quota.to_keep_free()) * length;
        const Wide held_back = with_it - (1 + static_cast<Wide>(quota.delay)) * length;
        verdict.delay = to_microseconds(divide_up(std::max<Wide>(held_back, 0), parts));
    }
    return verdict;
}

/// The script does not reply with the fraction that a lease leads to. It follows from the others:
/// the leased units move the state on from the lease's end, or from where it was if that is later.
void add_lease(const Quota &quota, std::span<int64_t> reply, RuleReply lease) {
    const Interval interval(quota);
    const Wide before = lease[1] > reply[0] ? 0 : reply[1];
    const Wide fraction = before + Wide{lease[0]} * static_cast<Wide>(interval.length);
    reply[0] = lease[2] - reply[2];
    reply[1] = static_cast<int64_t>(fraction % static_cast<Wide>(interval.parts));
}

/// Whether what is known of the key is of another limit, and what is taken is to stay so many
/// units.
bool is_to_convert(const Record &known, const Quota &quota) {
    return quota.other_limit != OtherLimit::counts_in_time &&
           known.values[2] != Interval(quota).parts;
}

/// How far the time of a record lies ahead, in the parts of a microsecond of the quota's interval.
Wide ahead_of(const Record &known, microseconds now, const Quota &quota) {
    const Wide ahead = (time_of(known.values[0]) - now).count();
    const Wide parts = Interval(quota).parts;
    const Wide fraction = known.values[1];
    Wide ahead_in_parts = 0;
    if (is_to_convert(known, quota)) { // a unit is as many parts by any limit
        ahead_in_parts =
            std::min(ahead * known.values[2] + fraction, Wide{longest_debt.count()} * parts);
    } else if (known.values[2] == parts) {
        ahead_in_parts = ahead * parts + fraction;
    } else { // of another limit: it is rounded, against the client
        ahead_in_parts = (ahead + (fraction > 0 ? 1 : 0)) * parts;
    }
    return std::max<Wide>(ahead_in_parts, 0);
}

/// The time that lies so far ahead, as a record has it.
Values values_of(Wide ahead, microseconds now, const Quota &quota) {
    const uint64_t parts = Interval(quota).parts;
    return {word_of(now + to_microseconds(ahead / parts)), static_cast<uint64_t>(ahead % parts),
            parts, 0};
}

LocalDecision decide(const std::optional<Record> &known, const Quota &quota, bool /*aligned*/,
                     const Now &now) {
    const Interval interval(quota);
    const Wide parts = interval.parts;
    Wide ahead = known ? ahead_of(*known, now.monotonic, quota) : 0;
    const BucketTime time = time_to_charge(quota);
    const Wide next = ahead + Wide{time.us} * parts + time.fraction;
    const bool fits = next <= Wide{quota.capacity() - quota.to_keep_free()} * interval.length;
    if (fits) {
        ahead = next;
    }
    const auto whole = static_cast<int64_t>(ahead / parts);
    const auto fraction = static_cast<int64_t>(ahead % parts);
    const std::array<int64_t, 3> reply = {fits ? whole : -1 - whole, fraction, 0};
    const Values values = values_of(ahead, now.monotonic, quota);
    LocalDecision decision = decision_of_reply(quota, reply, now.monotonic, values);
    if (known && is_to_convert(*known, quota) && !decision.after) {
        decision.converted = {.time = now.monotonic,
                              .holds_for = microseconds(whole) + microseconds{1},
                              .values = values};
    }
    return decision;
}

std::optional<Record> settle(const std::optional<Record> &known, const Quota &quota,
                             const LocalSettlement &settlement, bool /*aligned*/, const Now &now) {
    const Interval interval(quota);
    const Wide parts = interval.parts;
    const Wide length = interval.length;
    Wide ahead = known ? ahead_of(*known, now.monotonic, quota) : 0;
    // The verdict is rounded up to whole microseconds.
    const Wide rounded = interval.is_whole() ? 0 : parts;
    const microseconds charged_to = settlement.decided + settlement.verdict.reset;
    const Wide of_charge = Wide{(charged_to - now.monotonic).count()} * parts - rounded;
    // By another limit what was charged has come back sooner or later than its time says.
    const bool is_sure = !known || !is_to_convert(*known, quota);
    const Wide still_taken = is_sure ? std::max<Wide>(std::min(of_charge, ahead), 0) : 0;
    const auto to_settle = [&](uint64_t units) {
        return std::max<Wide>(Wide{units} * length - Wide{settlement.left_out} * parts, 0);
    };
    ahead -= std::min(to_settle(settlement.to_return), still_taken);
    ahead = std::min(ahead + to_settle(settlement.to_charge),
                     std::max(ahead, Wide{longest_debt.count()} * parts));
    return Record{.time = now.monotonic,
                  .holds_for = to_microseconds(ahead / parts) + microseconds{1},
                  .values = values_of(ahead, now.monotonic, quota)};
}

std::optional<Record> record(const std::optional<Record> &known, const RedisVerdict &redis) {
    const Wide ahead = Wide{redis.verdict.reset.count()} * Interval(redis.part).parts;
    if (known && ahead_of(*known, redis.asked, redis.part) >= ahead) {
        return std::nullopt;
    }
    return Record{.time = redis.asked,
                  .holds_for = redis.verdict.reset,
                  .values = values_of(ahead, redis.asked, redis.part)};
}

/// The limit, and what the check makes of a state of another one: lua/gcra.lua.
uint64_t mark_of(const Quota &quota) {
    const uint64_t kind = 1 + static_cast<uint64_t>(quota.other_limit);
    return (kind << 32) + Interval(quota).parts;
}

ScriptArguments check_arguments(const Quota &quota) {
    const Interval interval(quota);
    const BucketTime charge = time_to_charge(quota);
    const BucketTime capacity = time_of_units(interval, quota.capacity() - quota.to_keep_free());
    return {charge.us, charge.fraction, capacity.us, capacity.fraction, mark_of(quota)};
}

/// The time of units beyond the capacity, too, less what is charged already. The script goes no
/// further than longest_debt.
ScriptArguments debt_arguments(const Quota &quota) {
    const Interval interval(quota);
    const BucketTime capacity = time_of_units(interval, quota.capacity());
    BucketTime charge = time_of_units(interval, quota.cost);
    if (charge.us >= word_of(longest_debt)) {
        charge = {word_of(longest_debt), 0};
    }
    charge.us -= std::min(charge.us, quota.charged);
    return {charge.us, charge.fraction, capacity.us, capacity.fraction, mark_of(quota)};
}

ScriptArguments refund_arguments(const Quota &quota) {
    const BucketTime charge = time_to_charge(quota);
    return {charge.us, charge.fraction, mark_of(quota)};
}

} // namespace

constinit const AlgorithmFamily gcra_family = {
    .script = [] { return embedded(redis_rate_limit_lua_gcra, redis_rate_limit_lua_gcra_end); },
    .letter = 'g',
    .check_arguments = check_arguments,
    .debt_arguments = debt_arguments,
    .lease_arguments = [](const Quota &quota) -> ScriptArguments {
        const BucketTime interval = time_of_units(Interval(quota), 1);
        return {interval.us, interval.fraction};
    },
    .refund_arguments = refund_arguments,
    .longest_state = [](const Quota &quota) { return quota.refill(); },
    .verdict_of_reply = verdict_of,
    // the time to which the charge leads if refunds do not move it
    .receipt_of_reply = [](const Quota &, RuleReply reply,
                           int64_t now) { return now + reply[0] + reply[2]; },
    .add_lease = add_lease,
    .decide_locally = decide,
    .record_verdict = record,
    .settle_locally = settle,
};

} // namespace rate_limit
