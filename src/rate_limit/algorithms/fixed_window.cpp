// fixed_window: see lua/fixed_window.lua.
//
// A record's values[0]  the current window's end, microseconds
//                   [1]  the units taken in it

#include "rate_limit/algorithms/algorithm_helpers.hpp"
#include "rate_limit/embed.hpp"

EMBED(redis_rate_limit_lua_fixed_window, "lua/fixed_window.lua");

namespace rate_limit::fixed_window {

namespace {

using std::chrono::microseconds;

/// The reply is { left, time left }. All units come back at once when the window ends.
std::optional<Verdict> verdict_of(const Quota &quota, RuleReply reply, bool charged) {
    if (!can_be_left(quota, reply[0]) || reply[1] < 0) {
        return std::nullopt;
    }
    const microseconds time_left(reply[1]);
    Verdict verdict{.decision = decision_of(quota, reply[0] >= 0),
                    .remaining = remaining_of(quota, reply[0], charged),
                    .retry_after = time_left};
    if (verdict.remaining < quota.limit) {
        verdict.next_unit = verdict.reset = time_left;
    }
    return verdict;
}

struct Window {
    microseconds end;
    uint64_t taken;

    Values values() const { return {word_of(end), taken, 0, 0}; }
};

Window window_of(const Record &known) {
    return {time_of(known.values[0]), known.values[1]};
}

Window window_begun(const Quota &quota, bool aligned, const Now &now) {
    if (quota.calendar != nullptr) {
        return {now.monotonic + quota.calendar->window_at(now.unix_time).end - now.unix_time, 0};
    }
    const microseconds length = quota.window;
    const microseconds since_begin = aligned ? now.unix_time % length : microseconds::zero();
    return {now.monotonic + length - since_begin, 0};
}

LocalDecision decide(const std::optional<Record> &known, const Quota &quota, bool aligned,
                     const Now &now) {
    Window window = known ? window_of(*known) : Window{};
    if (window.end <= now.monotonic || window.taken == 0) { // the first unit begins a window
        window = window_begun(quota, aligned, now);
    }
    const Wide left = Wide{quota.limit} - quota.to_keep_free() - quota.to_charge() - window.taken;
    if (left >= 0) {
        window.taken += quota.to_charge();
    }
    const std::array<int64_t, 2> reply = {static_cast<int64_t>(left),
                                          (window.end - now.monotonic).count()};
    LocalDecision decision = decision_of_reply(quota, reply, now.monotonic, window.values());
    decision.receipt =
        window.end.count(); // verdicts of Redis may move the window, but not its count
    return decision;
}

std::optional<Record> settle(const std::optional<Record> &known, const Quota &quota,
                             const LocalSettlement &settlement, bool aligned, const Now &now) {
    Window window = known ? window_of(*known) : Window{};
    const bool is_current = window.end > now.monotonic && window.taken > 0;
    if (settlement.to_return > 0) {
        if (!is_current || window.end != microseconds(settlement.receipt)) {
            return std::nullopt;
        }
        window.taken -= std::min(window.taken, settlement.to_return);
    } else {
        if (!is_current) {
            window = window_begun(quota, aligned, now);
        }
        window.taken += settlement.to_charge;
    }
    return Record{
        .time = now.monotonic, .holds_for = window.end - now.monotonic, .values = window.values()};
}

std::optional<Record> record(const std::optional<Record> &known, const RedisVerdict &redis) {
    const microseconds length = redis.part.window;
    // Windows that follow each other end a length apart. A round trip makes that look shorter, by
    // an eighth of the length at most.
    const microseconds longest_overlap = length - length / 8;
    Window window{.end = redis.asked + redis.verdict.reset, .taken = redis.used};
    if (known) {
        const Window before = window_of(*known);
        // Where the clock of Redis stepped back, its window seems to last longer than its length.
        const microseconds later = std::min(window.end, redis.asked + length) - before.end;
        if (later < -longest_overlap) {
            return std::nullopt;
        }
        if (before.end > redis.asked && later <= longest_overlap) {
            window.end = std::max(window.end, before.end);
            window.taken = std::max(window.taken, before.taken);
        }
        if (window.values() == known->values) {
            return std::nullopt;
        }
    }
    return Record{
        .time = redis.asked, .holds_for = window.end - redis.asked, .values = window.values()};
}

} // namespace

constinit const AlgorithmFamily family = {
    .script =
        [] {
            return embedded(redis_rate_limit_lua_fixed_window,
                            redis_rate_limit_lua_fixed_window_end);
        },
    .letter = 'f',
    .check_arguments = limit_cost_and_window,
    .debt_arguments = limit_cost_and_window,
    .lease_arguments = no_arguments,
    .refund_arguments = cost_and_window,
    .longest_state = [](const Quota &quota) -> microseconds { return quota.window; },
    .verdict_of_reply = verdict_of,
    .receipt_of_reply = [](const Quota &quota, RuleReply reply,
                           int64_t now) { return moment_of_charge(quota, now, reply[1]); },
    .add_lease = [](const Quota &, std::span<int64_t> reply,
                    RuleReply lease) { reply[0] -= lease[0]; },
    .decide_locally = decide,
    .record_verdict = record,
    .settle_locally = settle,
};

} // namespace rate_limit::fixed_window
