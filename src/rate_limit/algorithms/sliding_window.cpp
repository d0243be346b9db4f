// sliding_window: see lua/sliding_window.lua.
//
// A record's values[0]  the current window's end, microseconds
//                   [1]  the units taken in it
//                   [2]  the units taken in the window before

#include "rate_limit/algorithms/algorithm_helpers.hpp"
#include "rate_limit/embed.hpp"

#include <algorithm>

EMBED(redis_rate_limit_lua_sliding_window, "lua/sliding_window.lua");

namespace rate_limit::sliding_window {

namespace {

using std::chrono::microseconds;

/// The state of the counter, as a reply gives it, and when it has room.
struct TwoWindows {
    Wide limit;
    Wide window;
    Wide previous;
    Wide current;
    Wide elapsed; // of the current window

    /// previous * (T - elapsed) / T + current, times T.
    Wide used() const { return previous * (window - elapsed) + current * window; }

    /// The least time until `units` would be granted, from 0 to the limit.
    microseconds wait_for(Wide units) const {
        const Wide left = window - elapsed;
        const Wide room = limit - current - units;
        if (room >= 0) { // there is room before this window ends
            const Wide overlap = previous > 0 ? room * window / previous : left;
            return microseconds(static_cast<int64_t>(std::max<Wide>(left - overlap, 0)));
        }
        // There is room in the next window, of which the current one is the previous window.
        const Wide overlap = (limit - units) * window / current;
        return microseconds(static_cast<int64_t>(left + std::max<Wide>(window - overlap, 0)));
    }
};

/// The reply is { previous, current, elapsed }.
std::optional<Verdict> verdict_of(const Quota &quota, RuleReply reply, bool /*charged*/) {
    const microseconds window = quota.window;
    const int64_t previous = without_decision(reply[0]);
    const int64_t current = reply[1];
    const int64_t elapsed = reply[2];
    if (current < 0 || elapsed >= window.count()) {
        return std::nullopt;
    }
    // Where the clock stepped back before the window, time stands still until it is there again.
    const microseconds way_back(std::max<int64_t>(-elapsed, 0));
    const TwoWindows state{.limit = static_cast<Wide>(quota.limit),
                           .window = window.count(),
                           .previous = previous,
                           .current = current,
                           .elapsed = std::max<int64_t>(elapsed, 0)};
    Verdict verdict{.decision = decision_of(quota, reply[0] >= 0)};
    const Wide free = state.limit * state.window - state.used();
    verdict.remaining = static_cast<uint64_t>(std::max<Wide>(free, 0) / state.window);
    if (verdict.decision == Decision::denied) {
        verdict.retry_after = way_back + state.wait_for(static_cast<Wide>(quota.cost));
    }
    if (verdict.remaining < quota.limit) {
        verdict.next_unit = way_back + state.wait_for(static_cast<Wide>(verdict.remaining) + 1);
        verdict.reset = way_back + state.wait_for(state.limit);
    }
    return verdict;
}

struct Windows {
    microseconds end;
    uint64_t current;
    uint64_t previous;

    Values values() const { return {word_of(end), current, previous, 0}; }
};

Windows windows_of(const Record &known) {
    return {time_of(known.values[0]), known.values[1], known.values[2]};
}

/// The end of the window that begins last, at a multiple of its length in Unix time.
microseconds aligned_end(const Now &now, microseconds length) {
    return now.monotonic + length - now.unix_time % length;
}

/// How much of what was taken in the previous window counts at that time, rounded up.
uint64_t counted_of_previous(const Windows &windows, microseconds time, microseconds length) {
    const microseconds overlap = std::clamp(windows.end - time, microseconds::zero(), length);
    const Wide counted = Wide{windows.previous} * overlap.count() + length.count() - 1;
    return static_cast<uint64_t>(counted / length.count());
}

/// How many windows have ended at that time, the current one and those after it.
int64_t windows_ended(const Windows &windows, microseconds time, microseconds length) {
    return windows.end <= time ? (time - windows.end) / length + 1 : 0;
}

/// Makes the window that is so many windows later the current one.
void move_on(Windows &windows, int64_t count, microseconds length) {
    for (int64_t i = 0; i < std::min<int64_t>(count, 2); ++i) {
        windows.previous = windows.current;
        windows.current = 0;
    }
    windows.end += length * count;
}

/// Returns the windows at that time, by what is known.
Windows windows_at(const std::optional<Record> &known, const Now &now, microseconds length) {
    Windows windows{};
    if (known) {
        windows = windows_of(*known);
        move_on(windows, windows_ended(windows, now.monotonic, length), length);
    }
    if (windows.current == 0 && windows.previous == 0) {
        windows.end = aligned_end(now, length);
    }
    return windows;
}

LocalDecision decide(const std::optional<Record> &known, const Quota &quota, bool /*aligned*/,
                     const Now &now) {
    const microseconds length = quota.window;
    Windows windows = windows_at(known, now, length);
    const microseconds overlap = std::min(windows.end - now.monotonic, length);
    const Wide free =
        Wide{quota.limit} - quota.to_keep_free() - quota.to_charge() - windows.current;
    const bool fits = Wide{windows.previous} * overlap.count() <= free * length.count();
    if (fits) {
        windows.current += quota.to_charge();
    }
    const auto previous = static_cast<int64_t>(windows.previous);
    const std::array<int64_t, 3> reply = {fits ? previous : -1 - previous,
                                          static_cast<int64_t>(windows.current),
                                          (now.monotonic - (windows.end - length)).count()};
    LocalDecision decision = decision_of_reply(quota, reply, now.monotonic, windows.values());
    decision.receipt = (windows.end - length).count(); // the window that is charged
    return decision;
}

std::optional<Record> settle(const std::optional<Record> &known, const Quota &quota,
                             const LocalSettlement &settlement, bool /*aligned*/, const Now &now) {
    const microseconds length = quota.window;
    Windows windows = windows_at(known, now, length);
    // Verdicts of Redis may have moved the windows by less than half of their length: record().
    const microseconds charged = microseconds(settlement.receipt) + length / 2;
    const microseconds begin = windows.end - length;
    if (charged >= begin) {
        windows.current -= std::min(windows.current, settlement.to_return);
    } else if (charged >= begin - length) {
        windows.previous -= std::min(windows.previous, settlement.to_return);
    }
    windows.current += settlement.to_charge;
    return Record{.time = now.monotonic,
                  .holds_for = windows.end + length - now.monotonic,
                  .values = windows.values()};
}

// A verdict's reset is what is left of the current window, and one window more where something was
// taken in it: verdict_of(). So it says where the windows of Redis end, and whether anything was
// taken in the current one.
std::optional<Record> record(const std::optional<Record> &known, const RedisVerdict &redis) {
    const auto &[verdict, quota, part, used, asked] = redis;
    const microseconds length = part.window;
    const bool has_current = verdict.reset > length;
    const microseconds left =
        std::min(has_current ? verdict.reset - length : verdict.reset, length);
    Windows windows{.end = asked + left, .current = 0, .previous = 0};
    if (known) {
        windows = windows_of(*known);
        const microseconds later = asked + left - windows.end + length / 2;
        if (later < microseconds::zero()) {
            return std::nullopt;
        }
        const int64_t count = later / length;
        const int64_t ended = windows_ended(windows, asked, length);
        move_on(windows, std::min(count, ended), length);
        if (count > ended) { // the clocks differ: a window that has ended in Redis goes on here
            const uint64_t of_previous = counted_of_previous(windows, asked, length);
            move_on(windows, count - ended, length);
            windows.previous += of_previous;
        }
        windows.end = std::max(windows.end, asked + left);
    }
    if (has_current) {
        const Wide of_previous = Wide{windows.previous} * left.count() / length.count();
        windows.current =
            std::max(windows.current, static_cast<uint64_t>(std::max<Wide>(used - of_previous, 0)));
    } else {
        const Wide of_previous = Wide{used} * length.count() / left.count();
        const Wide most = largest_number; // in case the numbers are not those of one verdict
        windows.previous =
            std::max(windows.previous, static_cast<uint64_t>(std::min(of_previous, most)));
    }
    if (known && windows.values() == known->values) {
        return std::nullopt;
    }
    const microseconds more = windows.current > 0 ? length : microseconds::zero();
    return Record{
        .time = asked, .holds_for = windows.end + more - asked, .values = windows.values()};
}

} // namespace

constinit const AlgorithmFamily family = {
    .script =
        [] {
            return embedded(redis_rate_limit_lua_sliding_window,
                            redis_rate_limit_lua_sliding_window_end);
        },
    .letter = 's',
    .check_arguments = limit_cost_and_window,
    .debt_arguments = limit_cost_and_window,
    .lease_arguments = no_arguments,
    .refund_arguments = cost_and_window,
    // What was taken in a window counts in the next one, too.
    .longest_state = [](const Quota &quota) { return 2 * microseconds(quota.window); },
    .verdict_of_reply = verdict_of,
    .receipt_of_reply =
        [](const Quota &quota, RuleReply reply, int64_t now) {
            return moment_of_charge(quota, now, microseconds(quota.window).count() - reply[2]);
        },
    .add_lease = [](const Quota &, std::span<int64_t> reply,
                    RuleReply lease) { reply[1] += lease[0]; },
    .decide_locally = decide,
    .record_verdict = record,
    .settle_locally = settle,
};

} // namespace rate_limit::sliding_window
