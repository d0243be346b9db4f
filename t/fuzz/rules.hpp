// Rules as a configuration may have them, and what holds of each of their verdicts.
#pragma once

#include "input.hpp"
#include "rate_limit/rule/rule.hpp"
#include "rate_limit/rule/verdict.hpp"
#include "unit/rate_limit/algorithms.hpp"

#include <chrono>

namespace fuzz {

/// Small numbers as often as any.
inline uint64_t take_units(Input &input, uint64_t most) {
    return input.flag() ? input.number(0, most) : input.number(0, std::min<uint64_t>(most, 255));
}

/// Another limit, burst, delay and cost, as requests of one counter may have them.
inline void change_numbers(Input &input, rate_limit::Quota &quota) {
    quota.limit = take_units(input, largest_limit(quota.algorithm));
    quota.cost = take_units(input, largest_cost(quota.algorithm));
    quota.burst = {};
    quota.delay = 0;
    if (is_bucket(quota.algorithm) && input.flag()) {
        quota.burst = take_units(input, rate_limit::largest_number);
        if (quota.refill() > rate_limit::longest_refill) { // which is refused
            quota.burst = {};
        }
    }
    if (quota.algorithm == rate_limit::Algorithm::leaky_bucket) {
        quota.delay = take_units(input, rate_limit::largest_number);
    }
}

inline rate_limit::Quota take_quota(Input &input, rate_limit::Algorithm algorithm) {
    rate_limit::Quota quota;
    quota.algorithm = algorithm;
    constexpr auto longest = static_cast<uint64_t>(rate_limit::longest_window.count());
    quota.window = std::chrono::milliseconds(input.flag() ? input.number(1, longest)
                                                          : 1000 * input.number(1, 255));
    change_numbers(input, quota);
    return quota;
}

/// One of the numbers that a script replies: any, or around a limit or a time.
inline int64_t take_reply_number(Input &input, const rate_limit::Quota &quota) {
    const int64_t bases[] = {0, static_cast<int64_t>(quota.capacity()),
                             std::chrono::microseconds(quota.window).count(),
                             quota.refill().count(), int64_t{1} << 53};
    if (input.flag()) {
        return input.any_number();
    }
    const int64_t base = input.flag() ? input.one_of(bases) : -input.one_of(bases);
    return base + static_cast<int64_t>(input.number(0, 255)) - 128;
}

/// Whatever was replied.
inline void require_in_range(const rate_limit::Quota &quota, const rate_limit::Verdict &verdict) {
    constexpr std::chrono::microseconds none{0};
    const bool is_granted = verdict.decision == rate_limit::Decision::granted;
    const bool is_denied = verdict.decision == rate_limit::Decision::denied;
    require(verdict.remaining <= quota.capacity(), "no more is left than the capacity");
    require(verdict.retry_after >= none && verdict.next_unit >= none && verdict.reset >= none &&
                verdict.delay >= none,
            "no time is negative");
    require(is_denied || verdict.retry_after == none, "only who is denied is told to wait");
    require(is_granted || verdict.delay == none, "only what is granted is held back");
    require(!is_granted || quota.cost <= quota.capacity(), "what cannot be granted is not");
    require(quota.capacity() == 0 || (verdict.decision == rate_limit::Decision::never) ==
                                         (quota.cost > quota.capacity()),
            "what can be granted at some time is not denied for ever");
}

} // namespace fuzz
