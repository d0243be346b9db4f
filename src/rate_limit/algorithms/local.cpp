#include "rate_limit/algorithms/local.hpp"

#include "rate_limit/algorithms/algorithm_helpers.hpp"

#include <algorithm>

namespace rate_limit {

namespace {

using std::chrono::microseconds;

uint64_t part_of(uint64_t number, uint64_t percent) {
    return number == 0 ? 0 : std::max<uint64_t>(number * percent / 100, 1);
}

/// The least limit with which the bucket still fills within longest_refill.
uint64_t least_limit(const Quota &bucket) {
    const Wide time_at_limit_one = Wide{bucket.capacity()} * microseconds(bucket.window).count();
    return static_cast<uint64_t>((time_at_limit_one + longest_refill.count() - 1) /
                                 longest_refill.count());
}

} // namespace

LocalDecision decide_locally(const std::optional<Record> &known, const Quota &quota, bool aligned,
                             const Now &now) {
    if (const auto verdict = verdict_without_counter(quota)) {
        return {.verdict = *verdict, .after = std::nullopt};
    }
    return traits_of(quota.algorithm).family.decide_locally(known, quota, aligned, now);
}

std::optional<Record> settle_locally(const std::optional<Record> &known, const Quota &quota,
                                     const LocalSettlement &settlement, bool aligned,
                                     const Now &now) {
    if (!known && settlement.to_return > 0) {
        return std::nullopt; // all that was charged has come back
    }
    return traits_of(quota.algorithm).family.settle_locally(known, quota, settlement, aligned, now);
}

Quota scaled(const Quota &quota, uint64_t percent) {
    Quota part = quota;
    const uint64_t least_capacity = std::min(quota.cost, quota.capacity());
    part.limit = part_of(quota.limit, percent);
    part.delay = quota.delay * percent / 100;
    part.set_capacity(std::max(part_of(quota.capacity(), percent), least_capacity));
    if (is_bucket(quota.algorithm)) {
        part.limit = std::max(part.limit, least_limit(part));
    }
    return part;
}

std::optional<Record> record_verdict(const std::optional<Record> &known, const Quota &quota,
                                     const Verdict &verdict, uint64_t percent, microseconds asked) {
    const uint64_t used = quota.capacity() - std::min(verdict.remaining, quota.capacity());
    // No rule has a later reset, even where the clock of Redis stepped back.
    constexpr microseconds latest = 2 * longest_refill;
    if (used == 0 || verdict.reset <= microseconds::zero() || verdict.reset > latest) {
        return std::nullopt;
    }
    const auto part_taken = [&](uint64_t units) { return (units * percent + 99) / 100; };
    Quota part = scaled(quota, percent);
    part.cost = part_taken(quota.to_charge());
    part.charged = 0;
    return traits_of(quota.algorithm)
        .family.record_verdict(known, {.verdict = verdict,
                                       .quota = quota,
                                       .part = part,
                                       .used = part_taken(used),
                                       .asked = asked});
}

std::optional<Record> release_permits(const std::optional<Record> &known, const Quota &quota,
                                      microseconds taken_at, microseconds now) {
    return traits_of(quota.algorithm).family.release_permits(known, quota, taken_at, now);
}

} // namespace rate_limit
