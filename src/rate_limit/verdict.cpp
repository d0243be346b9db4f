#include "verdict.hpp"

#include <algorithm>

namespace rate_limit {

namespace {

using std::chrono::microseconds;

// A limit times a window takes 75 bits.
__extension__ using Wide = __int128;

Wide divide_up(Wide dividend, Wide divisor) {
    return (dividend + divisor - 1) / divisor;
}

microseconds to_microseconds(Wide time) {
    return microseconds(static_cast<int64_t>(time));
}

Decision decision_of(const Quota &quota, bool granted) {
    if (quota.cost > quota.capacity()) {
        return Decision::never;
    }
    return granted ? Decision::granted : Decision::denied;
}

/// Scripts tell `left`, what a charge would leave of the limit, whether it was made or not.
uint64_t remaining_of(const Quota &quota, int64_t left, bool charged) {
    const int64_t units = charged ? left : left + static_cast<int64_t>(quota.to_charge());
    return static_cast<uint64_t>(std::max<int64_t>(units, 0));
}

bool is_left(const Quota &quota, int64_t left) {
    return left <= static_cast<int64_t>(quota.limit) - static_cast<int64_t>(quota.to_charge());
}

/// Some scripts tell a denial by a number below 0: n as -1 - n.
int64_t without_decision(int64_t number) {
    return number < 0 ? -1 - number : number;
}

/// { left, next, reset, wait }. The script's wait is for what is still to be charged. A client that
/// comes again is charged for its whole cost: where that is more, it is told to wait until all
/// units are there.
std::optional<Verdict> of_sliding_log(const Quota &quota, RuleReply reply, bool charged) {
    if (!is_left(quota, reply[0]) || reply[1] < 0 || reply[2] < 0 || reply[3] < 0) {
        return std::nullopt;
    }
    return Verdict{.decision = decision_of(quota, reply[0] >= 0),
                   .remaining = remaining_of(quota, reply[0], charged),
                   .retry_after = microseconds(reply[quota.charged == 0 ? 3 : 2]),
                   .next_unit = microseconds(reply[1]),
                   .reset = microseconds(reply[2])};
}

/// { left, time left }: all comes back at once when the window ends.
std::optional<Verdict> of_fixed_window(const Quota &quota, RuleReply reply, bool charged) {
    if (!is_left(quota, reply[0]) || reply[1] < 0) {
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

/// A sliding window's state, and when it has room.
struct TwoWindows {
    Wide limit;
    Wide window;
    Wide previous;
    Wide current;
    Wide elapsed; // of the current window

    /// previous * (T - elapsed) / T + current, as so many T-ths.
    Wide used() const { return previous * (window - elapsed) + current * window; }

    /// The least time until `units` would be granted, from 0 to the limit.
    microseconds wait_for(Wide units) const {
        const Wide left = window - elapsed;
        const Wide room = limit - current - units;
        if (room >= 0) { // in this window, at its end at the latest
            const Wide overlap = previous > 0 ? room * window / previous : left;
            return to_microseconds(std::max<Wide>(left - overlap, 0));
        }
        // in the next window, in which the current one is the previous
        const Wide overlap = (limit - units) * window / current;
        return to_microseconds(left + std::max<Wide>(window - overlap, 0));
    }
};

/// { previous, current, elapsed }
std::optional<Verdict> of_sliding_window(const Quota &quota, RuleReply reply) {
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

/// { ahead, fraction, moved back }: how far the time at which all units are there lies ahead.
std::optional<Verdict> of_bucket(const Quota &quota, RuleReply reply, bool charged) {
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
    const auto wait_for = [&](Wide units) { // until so many are there
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
    if (quota.algorithm == Algorithm::leaky_bucket && charged && quota.cost > 0) {
        const Wide held_back = ahead - (1 + static_cast<Wide>(quota.delay)) * length;
        verdict.delay = to_microseconds(divide_up(std::max<Wide>(held_back, 0), parts));
    }
    return verdict;
}

/// { left }: nobody knows when requests end.
std::optional<Verdict> of_concurrency(const Quota &quota, RuleReply reply, bool charged) {
    constexpr std::chrono::seconds a_while{1};
    if (!is_left(quota, reply[0])) {
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

/// What is still to be charged for the cost, in whole units.
uint64_t units_to_charge(const Quota &quota) {
    if (!is_bucket(quota.algorithm)) {
        return quota.to_charge();
    }
    const Interval interval(quota);
    const BucketTime time = time_to_charge(quota);
    return static_cast<uint64_t>(
        (Wide{time.us} * static_cast<Wide>(interval.parts) + static_cast<Wide>(time.fraction)) /
        static_cast<Wide>(interval.length));
}

std::optional<Verdict> of_algorithm(const Quota &quota, RuleReply reply, bool charged) {
    switch (quota.algorithm) {
    case Algorithm::fixed_window:
        return of_fixed_window(quota, reply, charged);
    case Algorithm::sliding_log:
        return of_sliding_log(quota, reply, charged);
    case Algorithm::sliding_window:
        return of_sliding_window(quota, reply);
    case Algorithm::token_bucket:
    case Algorithm::gcra:
    case Algorithm::leaky_bucket:
        return of_bucket(quota, reply, charged);
    case Algorithm::concurrency:
        return of_concurrency(quota, reply, charged);
    }
    return std::nullopt;
}

} // namespace

size_t reply_length(Algorithm algorithm) {
    switch (algorithm) {
    case Algorithm::concurrency:
        return 1;
    case Algorithm::fixed_window:
        return 2;
    case Algorithm::sliding_window:
    case Algorithm::token_bucket:
    case Algorithm::gcra:
    case Algorithm::leaky_bucket:
        return 3;
    case Algorithm::sliding_log:
        return 4;
    }
    return 0;
}

bool is_granted(RuleReply reply) {
    return reply[0] >= 0;
}

std::optional<Verdict> verdict_of_reply(const Quota &quota, RuleReply reply, bool charged) {
    constexpr int64_t largest = int64_t{1} << 53; // of whole numbers in Lua
    const auto out_of_range = [](int64_t number) { return number > largest || number < -largest; };
    if (reply.size() != reply_length(quota.algorithm) || std::ranges::any_of(reply, out_of_range)) {
        return std::nullopt;
    }
    if (is_granted(reply) && quota.cost > quota.capacity()) {
        return std::nullopt;
    }
    auto verdict = of_algorithm(quota, reply, charged);
    if (verdict && verdict->decision != Decision::denied) {
        verdict->retry_after = microseconds{0};
    }
    return verdict;
}

Verdict verdict_after_refund(const Quota &quota, Verdict verdict) {
    verdict.remaining = std::min(verdict.remaining + units_to_charge(quota), quota.capacity());
    if (verdict.remaining == quota.capacity()) {
        verdict.next_unit = verdict.reset = microseconds{0};
    }
    return verdict;
}

int64_t receipt_of_reply(const Quota &quota, RuleReply reply, int64_t now) {
    switch (quota.algorithm) {
    case Algorithm::fixed_window: // its end
        return now + reply[1];
    case Algorithm::sliding_log: // the time of its entries
        return now - microseconds(quota.window).count() + reply[2];
    case Algorithm::sliding_window: // the current one's start
        return now - reply[2];
    case Algorithm::token_bucket: // the state, if refunds did not move it
    case Algorithm::gcra:
    case Algorithm::leaky_bucket:
        return now + reply[0] + reply[2];
    case Algorithm::concurrency: // refers to its slot
        break;
    }
    return 0;
}

std::optional<Verdict> verdict_without_counter(const Quota &quota) {
    if (quota.capacity() > 0) {
        return std::nullopt;
    }
    return Verdict{.decision = Decision::never};
}

bool is_tighter(const Quota &quota, const Verdict &verdict, const Quota &other_quota,
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
    return verdict.remaining * other_quota.capacity() < other_verdict.remaining * quota.capacity();
}

} // namespace rate_limit
