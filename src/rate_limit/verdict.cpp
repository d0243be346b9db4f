#include "verdict.hpp"

#include <algorithm>

namespace rate_limit {

namespace {

using std::chrono::microseconds;
using Reply = std::span<const int64_t>;

// A limit times a window takes 75 bits.
__extension__ using Wide = __int128;

Wide divide_up(Wide dividend, Wide divisor) {
    return (dividend + divisor - 1) / divisor;
}

microseconds to_microseconds(Wide time) {
    return microseconds(static_cast<int64_t>(time));
}

/// What scripts begin their replies with, 1 or 0.
Decision decision_of(int64_t granted) {
    return granted == 1 ? Decision::granted : Decision::denied;
}

/// { wait, remaining, next, reset }
std::optional<Verdict> of_sliding_log(const Rule &rule, Reply reply) {
    if (std::ranges::any_of(reply, [](int64_t number) { return number < 0; }) ||
        static_cast<uint64_t>(reply[1]) > rule.capacity()) {
        return std::nullopt;
    }
    return Verdict{.decision = reply[0] == 0 ? Decision::granted : Decision::denied,
                   .remaining = static_cast<uint64_t>(reply[1]),
                   .retry_after = microseconds(reply[0]),
                   .next_unit = microseconds(reply[2]),
                   .reset = microseconds(reply[3])};
}

/// { granted, taken, left }: all comes back at once when the window ends.
std::optional<Verdict> of_fixed_window(const Rule &rule, Reply reply) {
    const int64_t taken = reply[1];
    const microseconds left(reply[2]);
    if (taken < 0 || left.count() < 0) {
        return std::nullopt;
    }
    const auto limit = static_cast<int64_t>(rule.limit);
    const Decision decision = decision_of(reply[0]);
    return Verdict{.decision = decision,
                   .remaining = static_cast<uint64_t>(std::max<int64_t>(limit - taken, 0)),
                   .retry_after = decision == Decision::granted ? microseconds{0} : left,
                   .next_unit = left,
                   .reset = left};
}

/// A sliding window's state, and when it has room.
struct TwoWindows {
    Wide limit;
    Wide window;
    Wide previous;
    Wide current;
    Wide elapsed; // of the current window

    /// previous * (T - elapsed) / T + current, as so many T-ths.
    Wide used() const { return previous * (window - elapsed) + current * window; }

    /// The least time until `units` would be granted, from 1 to the limit.
    microseconds wait_for(Wide units) const {
        const Wide left = window - elapsed;
        const Wide room = limit - current - units;
        if (room >= 0) { // in this window, at its end at the latest
            const Wide overlap = previous > 0 ? room * window / previous : left;
            return to_microseconds(std::max<Wide>(left - overlap, 0));
        }
        // in the next window, in which the current one is the previous
        const Wide overlap = std::max<Wide>(limit - units, 0) * window / current;
        return to_microseconds(left + std::max<Wide>(window - overlap, 0));
    }
};

/// { granted, previous, current, elapsed }
std::optional<Verdict> of_sliding_window(const Rule &rule, Reply reply) {
    const microseconds window = rule.window;
    if (reply[1] < 0 || reply[2] < 0 || reply[3] >= window.count()) {
        return std::nullopt;
    }
    // Where the clock stepped back before the window, time stands still until it is there again.
    const microseconds way_back(std::max<int64_t>(-reply[3], 0));
    const TwoWindows state{.limit = static_cast<Wide>(rule.limit),
                           .window = window.count(),
                           .previous = reply[1],
                           .current = reply[2],
                           .elapsed = std::max<int64_t>(reply[3], 0)};
    Verdict verdict{.decision = decision_of(reply[0])};
    const Wide free = state.limit * state.window - state.used();
    verdict.remaining = static_cast<uint64_t>(std::max<Wide>(free, 0) / state.window);
    if (verdict.decision == Decision::denied) {
        verdict.retry_after = way_back + state.wait_for(1);
    }
    if (verdict.remaining < rule.limit) {
        verdict.next_unit = way_back + state.wait_for(static_cast<Wide>(verdict.remaining) + 1);
        verdict.reset = way_back + state.wait_for(state.limit);
    }
    return verdict;
}

/// { granted, ahead, fraction }: how far the time at which all units are there lies ahead.
std::optional<Verdict> of_bucket(const Rule &rule, Reply reply) {
    const Interval interval(rule);
    const Wide parts = static_cast<Wide>(interval.parts);
    if (reply[1] < 0 || reply[2] < 0 || reply[2] >= parts) {
        return std::nullopt;
    }
    const Wide length = static_cast<Wide>(interval.length);
    const Wide ahead = reply[1] * parts + reply[2];
    const Wide full = static_cast<Wide>(rule.capacity()) * length;
    const auto wait_for = [&](Wide units) { // until so many are there
        const Wide wait = ahead - (full - units * length);
        return to_microseconds(divide_up(std::max<Wide>(wait, 0), parts));
    };
    Verdict verdict{.decision = decision_of(reply[0])};
    verdict.remaining = static_cast<uint64_t>(std::max<Wide>(full - ahead, 0) / length);
    if (verdict.decision == Decision::denied) {
        verdict.retry_after = wait_for(1);
    }
    if (verdict.remaining < rule.capacity()) {
        verdict.next_unit = wait_for(static_cast<Wide>(verdict.remaining) + 1);
    }
    verdict.reset = to_microseconds(divide_up(ahead, parts));
    return verdict;
}

size_t length_of_reply(Algorithm algorithm) {
    switch (algorithm) {
    case Algorithm::fixed_window:
    case Algorithm::token_bucket:
    case Algorithm::gcra:
        return 3;
    case Algorithm::sliding_log:
    case Algorithm::sliding_window:
        return 4;
    }
    return 0;
}

} // namespace

std::optional<Verdict> verdict_of_reply(const Rule &rule, Reply reply) {
    constexpr int64_t largest = int64_t{1} << 53; // of whole numbers in Lua
    const auto out_of_range = [](int64_t number) { return number > largest || number < -largest; };
    if (reply.size() != length_of_reply(rule.algorithm) ||
        std::ranges::any_of(reply, out_of_range)) {
        return std::nullopt;
    }
    switch (rule.algorithm) {
    case Algorithm::fixed_window:
        return of_fixed_window(rule, reply);
    case Algorithm::sliding_log:
        return of_sliding_log(rule, reply);
    case Algorithm::sliding_window:
        return of_sliding_window(rule, reply);
    case Algorithm::token_bucket:
    case Algorithm::gcra:
        return of_bucket(rule, reply);
    }
    return std::nullopt;
}

std::optional<Verdict> verdict_without_counter(const Rule &rule) {
    if (rule.capacity() > 0) {
        return std::nullopt;
    }
    return Verdict{.decision = Decision::never};
}

bool is_tighter(const Rule &rule, const Verdict &verdict, const Rule &other_rule,
                const Verdict &other_verdict) {
    const bool denies = verdict.decision != Decision::granted;
    const bool other_denies = other_verdict.decision != Decision::granted;
    if (denies != other_denies) {
        return denies;
    }
    if (denies) {
        const bool never = verdict.decision == Decision::never;
        const bool other_never = other_verdict.decision == Decision::never;
        return never != other_never ? never : verdict.retry_after > other_verdict.retry_after;
    }
    // Compared crosswise, as whole numbers: both stay below 2 * 10^18.
    return verdict.remaining * other_rule.capacity() < other_verdict.remaining * rule.capacity();
}

} // namespace rate_limit
