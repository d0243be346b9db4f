// concurrency: see lua/concurrency.lua. The permits that this host knows of are those of its own
// requests.
//
// A record's values[0]  the units in flight
//                   [1]  a time since when none of their requests was forgotten, microseconds
// Its time is when the last of them began or ended.

#include "rate_limit/algorithms/algorithm_helpers.hpp"
#include "rate_limit/embed.hpp"

#include <algorithm>

EMBED(redis_rate_limit_lua_concurrency, "lua/concurrency.lua");

namespace rate_limit::concurrency {

namespace {

using std::chrono::microseconds;

/// The reply is { left }: nobody knows when requests end.
std::optional<Verdict> verdict_of(const Quota &quota, RuleReply reply, bool charged) {
    constexpr std::chrono::seconds a_while{1};
    if (!can_be_left(quota, reply[0])) {
        return std::nullopt;
    }
    Verdict verdict{.decision = decision_of(quota, reply[0] >= 0),
                    .remaining = remaining_of(quota, reply[0], charged),
                    .retry_after = a_while};
    if (verdict.remaining < quota.limit) {
        verdict.reset = a_while;
    }
    return verdict;
}

struct Permits {
    uint64_t units;
    microseconds since;
    microseconds last;
};

Permits permits_of(const std::optional<Record> &known, microseconds now) {
    return known ? Permits{known->values[0], time_of(known->values[1]), known->time}
                 : Permits{0, now, now};
}

Record record_of(const Permits &permits, const Quota &quota, microseconds now) {
    return {.time = std::max(permits.last, now),
            .holds_for = permits.units > 0 ? quota.window : microseconds::zero(),
            .values = {permits.units, word_of(permits.since)}};
}

Record with_charge(Permits permits, const Quota &quota, microseconds now) {
    permits.units += quota.to_charge();
    permits.since = std::min(permits.since, now);
    return record_of(permits, quota, now);
}

LocalDecision decide(const std::optional<Record> &known, const Quota &quota, bool /*aligned*/,
                     const Now &now) {
    const Permits permits = permits_of(known, now.monotonic);
    const Wide left = Wide{quota.limit} - quota.to_charge() - permits.units;
    const std::array<int64_t, 1> reply = {static_cast<int64_t>(left)};
    LocalDecision decision = decision_of_reply(quota, reply, now.monotonic, {});
    if (decision.after) {
        decision.after = with_charge(permits, quota, now.monotonic);
    }
    return decision;
}

std::optional<Record> record(const std::optional<Record> &known, const RedisVerdict &redis) {
    if (redis.verdict.decision != Decision::granted || !redis.quota.charges()) {
        return std::nullopt;
    }
    return with_charge(permits_of(known, redis.asked), redis.quota, redis.asked);
}

std::optional<Record> release(const std::optional<Record> &known, const Quota &quota,
                              microseconds taken_at, microseconds now) {
    Permits permits = permits_of(known, now);
    if (permits.units == 0 || taken_at < permits.since) { // the request was forgotten
        return std::nullopt;
    }
    permits.units -= std::min(permits.units, quota.to_charge());
    return record_of(permits, quota, now);
}

} // namespace

constinit const AlgorithmFamily family = {
    .script =
        [] {
            return embedded(redis_rate_limit_lua_concurrency, redis_rate_limit_lua_concurrency_end);
        },
    .letter = 'c',
    // The check's last argument, after these, is the permit.
    .check_arguments = limit_cost_and_window,
    .debt_arguments = limit_cost_and_window,
    .lease_arguments = no_arguments,
    .refund_arguments = cost_alone,
    .longest_state = [](const Quota &quota) -> microseconds { return quota.window; },
    .verdict_of_reply = verdict_of,
    // A refund refers to the permit.
    .receipt_of_reply = [](const Quota &, RuleReply, int64_t) { return int64_t{0}; },
    .decide_locally = decide,
    .record_verdict = record,
    .release_permits = release,
};

} // namespace rate_limit::concurrency
