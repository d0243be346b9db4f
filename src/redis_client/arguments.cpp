#include "arguments.hpp"

#include <algorithm>

namespace redis_client {

namespace {

using rate_limit::Algorithm;
using rate_limit::Quota;
using std::chrono::microseconds;

uint64_t window_us(const Quota &quota) {
    return static_cast<uint64_t>(microseconds(quota.window).count());
}

void add_time(WireWords &words, const rate_limit::BucketTime &time) {
    words.add(time.us);
    words.add(time.fraction);
}

/// For how long a key's state may count, and more where its script says so.
microseconds longest_state(const Quota &quota) {
    const microseconds window = quota.window;
    switch (quota.algorithm) {
    case Algorithm::sliding_window: // the window before counts too
        return 2 * window;
    case Algorithm::sliding_log:
        return window + window / 8;
    default:
        return window;
    }
}

WireWords bucket_arguments(const Quota &quota) {
    const rate_limit::Interval interval(quota);
    WireWords words;
    add_time(words, time_to_charge(quota));
    add_time(words, time_of_units(interval, quota.capacity()));
    words.add(interval.parts);
    words.add(time_to_live_ms(quota.refill()));
    return words;
}

} // namespace

uint64_t time_to_live_ms(microseconds state) {
    return static_cast<uint64_t>(
        (std::chrono::ceil<std::chrono::milliseconds>(state) + expiry_margin).count());
}

WireWords check_arguments(const Quota &quota, bool aligned) {
    if (is_bucket(quota.algorithm)) {
        return bucket_arguments(quota);
    }
    WireWords words;
    words.add(quota.limit);
    words.add(quota.to_charge());
    words.add(window_us(quota));
    words.add(time_to_live_ms(longest_state(quota)));
    if (quota.algorithm == Algorithm::fixed_window) {
        words.add(aligned ? "aligned" : "first");
    }
    return words;
}

WireWords refund_arguments(const Quota &quota, int64_t receipt) {
    WireWords words;
    if (is_bucket(quota.algorithm)) {
        add_time(words, time_to_charge(quota));
        words.add(rate_limit::Interval(quota).parts);
    } else {
        words.add(quota.to_charge());
        if (quota.algorithm == Algorithm::sliding_window) {
            words.add(window_us(quota));
        }
    }
    words.add(static_cast<uint64_t>(receipt));
    return words;
}

} // namespace redis_client
