// gcra, token_bucket and leaky_bucket: see lua/bucket.lua.
//
// A record's values[0]  the time at which all units are there again, microseconds
//                   [1]  its fraction, in so many parts of a microsecond as values[2] says
//                   [2]  the parts, which are the limit that led to it, and whether that counts in
//                        time or in units: the script's mark
//                   [3]  how far returns ever moved the time back, as in the script's state

#include "rate_limit/algorithms/algorithm_helpers.hpp"
#include "rate_limit/embed.hpp"

#include <algorithm>

EMBED(redis_rate_limit_lua_bucket, "lua/bucket.lua");

namespace rate_limit::bucket {

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

/// The limit, and what the check makes of a state of another one: lua/bucket.lua.
uint64_t mark_of(const Quota &quota) {
    const uint64_t kind = 1 + static_cast<uint64_t>(quota.other_limit);
    return (kind << 32) + Interval(quota).parts;
}

uint64_t parts_of(const Record &known) {
    return known.values[2] & UINT32_MAX;
}

/// A record of a version before the mark counts in time.
OtherLimit other_limit_of(const Record &known) {
    constexpr auto in_units = 1 + static_cast<uint64_t>(OtherLimit::counts_in_units);
    return known.values[2] >> 32 == in_units ? OtherLimit::counts_in_units
                                             : OtherLimit::counts_in_time;
}

/// Whether what is known of the key is of another limit, and what is taken is to stay so many
/// units.
bool is_to_convert(const Record &known, const Quota &quota) {
    return parts_of(known) != Interval(quota).parts &&
           (quota.other_limit == OtherLimit::counts_in_units ||
            other_limit_of(known) == OtherLimit::counts_in_units);
}

/// How far the time of a record lies ahead, in the parts of a microsecond of the quota's interval.
Wide ahead_of(const Record &known, microseconds now, const Quota &quota) {
    const Wide ahead = (time_of(known.values[0]) - now).count();
    const Wide parts = Interval(quota).parts;
    const Wide fraction = known.values[1];
    Wide ahead_in_parts = 0;
    if (is_to_convert(known, quota)) { // a unit is as many parts by any limit
        ahead_in_parts =
            std::min(ahead * parts_of(known) + fraction, Wide{longest_debt.count()} * parts);
    } else if (parts_of(known) == parts) {
        ahead_in_parts = ahead * parts + fraction;
    } else { // of another limit: it is rounded, against the client
        ahead_in_parts = (ahead + (fraction > 0 ? 1 : 0)) * parts;
    }
    return std::max<Wide>(ahead_in_parts, 0);
}

/// The time that lies so far ahead, as a record has it.
Values values_of(Wide ahead, microseconds now, const Quota &quota, uint64_t moved_back) {
    const uint64_t parts = Interval(quota).parts;
    return {word_of(now + to_microseconds(ahead / parts)), static_cast<uint64_t>(ahead % parts),
            mark_of(quota), moved_back};
}

/// The record of a time that lies so far ahead.
Record record_of(Wide ahead, microseconds now, const Quota &quota, uint64_t moved_back) {
    return {.time = now,
            .holds_for = to_microseconds(ahead / Interval(quota).parts) + microseconds{1},
            .values = values_of(ahead, now, quota, moved_back)};
}

/// The number of which the script keeps the remainder of how far refunds have moved its time back.
constexpr uint64_t turn = uint64_t{1} << 51;

/// How far returns have moved the time back. Where nothing is taken it begins anywhere, as the
/// script's does without a key, so that returns to a record that has gone do not fit to a new one.
/// A conversion that brings the time nearer counts as if returns had done it: a receipt gives back
/// no more than lies ahead of it then.
uint64_t moved_back_of(const std::optional<Record> &known, microseconds now, const Quota &quota) {
    const bool is_taken = known && time_of(known->values[0]) >= now;
    if (!is_taken) {
        return (word_of(now) << 31) % turn;
    }
    if (!is_to_convert(*known, quota)) {
        return known->values[3];
    }
    const uint64_t before = known->values[0];
    const Wide ahead = ahead_of(*known, now, quota) / Interval(quota).parts;
    const uint64_t converted = word_of(now + to_microseconds(ahead));
    return converted < before ? (known->values[3] + before - converted + 1) % turn
                              : known->values[3];
}

LocalDecision decide(const std::optional<Record> &known, const Quota &quota, bool /*aligned*/,
                     const Now &now) {
    const Interval interval(quota);
    const Wide parts = interval.parts;
    Wide ahead = known ? ahead_of(*known, now.monotonic, quota) : 0;
    const uint64_t moved_back = moved_back_of(known, now.monotonic, quota);
    std::optional<Record> converted;
    if (known && is_to_convert(*known, quota)) {
        converted = record_of(ahead, now.monotonic, quota, moved_back);
    }
    const BucketTime time = time_to_charge(quota);
    const Wide next = ahead + Wide{time.us} * parts + time.fraction;
    const bool fits = next <= Wide{quota.capacity() - quota.to_keep_free()} * interval.length;
    if (fits) {
        ahead = next;
    }
    const auto whole = static_cast<int64_t>(ahead / parts);
    const auto fraction = static_cast<int64_t>(ahead % parts);
    const std::array<int64_t, 3> reply = {fits ? whole : -1 - whole, fraction,
                                          static_cast<int64_t>(moved_back)};
    const Values values = values_of(ahead, now.monotonic, quota, moved_back);
    LocalDecision decision = decision_of_reply(quota, reply, now.monotonic, values);
    decision.converted = converted;
    return decision;
}

/// How much of what was taken up to a charge is still taken, by the charge's receipt. It is not
/// positive if that has come back, or if the receipt is of a record that has gone.
int64_t still_taken(int64_t receipt, uint64_t moved_back, microseconds now) {
    const int64_t taken = receipt - static_cast<int64_t>(moved_back) - now.count();
    constexpr auto whole_turn = static_cast<int64_t>(turn);
    return taken >= whole_turn / 2 ? taken - whole_turn : taken;
}

std::optional<Record> settle(const std::optional<Record> &known, const Quota &quota,
                             const LocalSettlement &settlement, bool /*aligned*/, const Now &now) {
    const bool is_converted = known && is_to_convert(*known, quota);
    if (is_converted && settlement.to_return > 0) {
        // What was charged has come back sooner or later than its receipt says.
        return std::nullopt;
    }
    // Where another limit has asked since the charge, that one stays: by its pace units come back.
    Quota by = quota;
    if (known) {
        by.limit = parts_of(*known);
        by.other_limit = other_limit_of(*known);
    }
    const Wide parts = Interval(by).parts;
    const Interval interval(is_converted ? by : quota); // of what counts in time, the charge's own
    Wide ahead = known ? ahead_of(*known, now.monotonic, by) : 0;
    uint64_t moved_back = moved_back_of(known, now.monotonic, by);
    const auto left_out =
        static_cast<uint64_t>(Wide{settlement.left_out} * Interval(quota).parts / interval.parts);
    const auto to_settle = [&](uint64_t units) {
        const BucketTime time = time_of_units(interval, units);
        return time.us < left_out ? BucketTime{0, 0}
                                  : BucketTime{time.us - left_out, time.fraction};
    };
    // Else they are rounded to whole microseconds, against the client.
    const bool has_fractions = interval.parts == parts;
    if (settlement.to_return > 0) {
        const int64_t taken = still_taken(settlement.receipt, moved_back, now.monotonic);
        if (taken <= 0 || taken > ahead / parts) {
            return std::nullopt;
        }
        const BucketTime time = to_settle(settlement.to_return);
        const uint64_t back = std::min(static_cast<uint64_t>(taken), time.us);
        ahead -= Wide{back} * parts;
        moved_back += back;
        if (has_fractions && time.fraction > 0 && static_cast<uint64_t>(taken) > back) {
            ahead -= time.fraction;
            ++moved_back; // rounded, against the client
        }
        moved_back %= turn;
    }
    const BucketTime debt = to_settle(settlement.to_charge);
    const Wide fraction = has_fractions ? Wide{debt.fraction} : (debt.fraction > 0 ? parts : 0);
    ahead = std::min(ahead + Wide{debt.us} * parts + fraction,
                     std::max(ahead, Wide{longest_debt.count()} * parts));
    return record_of(ahead, now.monotonic, by, moved_back);
}

std::optional<Record> record(const std::optional<Record> &known, const RedisVerdict &redis) {
    const Wide by_redis = Wide{redis.verdict.reset.count()} * Interval(redis.part).parts;
    const Wide ahead = known ? ahead_of(*known, redis.asked, redis.part) : 0;
    if (known && ahead >= by_redis && !is_to_convert(*known, redis.part)) {
        return std::nullopt;
    }
    return record_of(std::max(ahead, by_redis), redis.asked, redis.part,
                     moved_back_of(known, redis.asked, redis.part));
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

constinit const AlgorithmFamily family = {
    .script = [] { return embedded(redis_rate_limit_lua_bucket, redis_rate_limit_lua_bucket_end); },
    .letter = 'g',
    .check_arguments = check_arguments,
    .debt_arguments = debt_arguments,
    .lease_arguments = [](const Quota &quota) -> ScriptArguments {
        const BucketTime interval = time_of_units(Interval(quota), 1);
        return {interval.us, interval.fraction};
    },
    .refund_arguments = refund_arguments,
    .keeps_past = true,
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

} // namespace rate_limit::bucket
