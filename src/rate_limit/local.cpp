#include "local.hpp"

#include "local_algorithms.hpp"

#include <algorithm>

namespace rate_limit {

namespace {

using std::chrono::microseconds;

uint64_t part_of(uint64_t number, uint64_t percent) {
    return number == 0 ? 0 : std::max<uint64_t>(number * percent / 100, 1);
}

/// The least limit with which the bucket fills in the longest time that a rule may take.
uint64_t least_limit(const Quota &bucket) {
    const Wide time_at_limit_one = Wide{bucket.capacity()} * microseconds(bucket.window).count();
    return static_cast<uint64_t>((time_at_limit_one + longest_refill.count() - 1) /
                                 longest_refill.count());
}

/// In flight, since when there is nothing of them that was forgotten, and when one last began or
/// ended.
struct Slots {
    uint64_t units;
    microseconds since;
    microseconds last;
};

Slots slots_of(const std::optional<Record> &known, microseconds now) {
    return known ? Slots{known->values[0], time_of(known->values[1]), known->time}
                 : Slots{0, now, now};
}

Record record_of(const Slots &slots, const Quota &quota, microseconds now) {
    return {.time = std::max(slots.last, now),
            .holds_for = slots.units > 0 ? quota.window : microseconds::zero(),
            .values = {slots.units, word_of(slots.since)}};
}

Record taken(Slots slots, const Quota &quota, microseconds now) {
    slots.units += quota.to_charge();
    slots.since = std::min(slots.since, now);
    return record_of(slots, quota, now);
}

std::optional<Record> note_slots(const std::optional<Record> &known, const Quota &quota,
                                 const Verdict &verdict, microseconds asked) {
    if (verdict.decision != Decision::granted || !quota.charges()) {
        return std::nullopt;
    }
    return taken(slots_of(known, asked), quota, asked);
}

} // namespace

LocalDecision decision_of(const Quota &quota, RuleReply reply, microseconds now,
                          const Values &values) {
    const bool granted = is_granted(reply);
    const auto verdict = verdict_of_reply(quota, reply, granted);
    if (!verdict) { // numbers that no rule and no record should lead to: nobody passes by them
        return {.verdict = {.decision = Decision::never}, .after = std::nullopt};
    }
    LocalDecision decision{.verdict = *verdict, .after = std::nullopt};
    if (granted && quota.charges()) {
        decision.after = {.time = now, .holds_for = decision.verdict.reset, .values = values};
    }
    return decision;
}

LocalDecision decide_concurrency(const std::optional<Record> &known, const Quota &quota,
                                 microseconds now) {
    const Slots slots = slots_of(known, now);
    const Wide left = Wide{quota.limit} - quota.to_charge() - slots.units;
    const std::array<int64_t, 1> reply = {static_cast<int64_t>(left)};
    LocalDecision decision = decision_of(quota, reply, now, {});
    if (decision.after) {
        decision.after = taken(slots, quota, now);
    }
    return decision;
}

LocalDecision decide_locally(const std::optional<Record> &known, const Quota &quota, bool aligned,
                             const Now &now) {
    if (const auto verdict = verdict_without_counter(quota)) {
        return {.verdict = *verdict, .after = std::nullopt};
    }
    switch (quota.algorithm) {
    case Algorithm::fixed_window:
        return decide_fixed_window(known, quota, aligned, now);
    case Algorithm::sliding_window:
        return decide_sliding_window(known, quota, now);
    case Algorithm::sliding_log:
        return decide_sliding_log(known, quota, now.monotonic);
    case Algorithm::concurrency:
        return decide_concurrency(known, quota, now.monotonic);
    case Algorithm::token_bucket:
    case Algorithm::gcra:
    case Algorithm::leaky_bucket:
        break;
    }
    return decide_bucket(known, quota, now.monotonic);
}

Quota scaled(const Quota &quota, uint64_t percent) {
    Quota part = quota;
    const uint64_t at_least = std::min(quota.cost, quota.capacity());
    const auto room = [&](uint64_t whole) { return std::max(part_of(whole, percent), at_least); };
    part.limit = part_of(quota.limit, percent);
    part.delay = quota.delay * percent / 100;
    if (quota.algorithm == Algorithm::token_bucket) {
        part.burst = room(quota.capacity());
    } else if (is_bucket(quota.algorithm)) { // whose capacity is one more
        part.burst = room(quota.capacity()) - 1;
    } else {
        part.limit = room(quota.limit);
    }
    if (is_bucket(quota.algorithm)) {
        part.limit = std::max(part.limit, least_limit(part));
    }
    return part;
}

std::optional<Record> note_verdict(const std::optional<Record> &known, const Quota &quota,
                                   const Verdict &verdict, uint64_t percent, microseconds asked) {
    const uint64_t used = quota.capacity() - std::min(verdict.remaining, quota.capacity());
    // more than that no rule tells, also where the clock of Redis stepped back
    constexpr microseconds latest = 2 * longest_refill;
    if (used == 0 || verdict.reset <= microseconds::zero() || verdict.reset > latest) {
        return std::nullopt;
    }
    const auto part_taken = [&](uint64_t units) { return (units * percent + 99) / 100; };
    Quota part = scaled(quota, percent);
    part.cost = part_taken(quota.to_charge());
    part.charged = 0;
    switch (quota.algorithm) {
    case Algorithm::fixed_window:
        return note_fixed_window(known, part, verdict, part_taken(used), asked);
    case Algorithm::sliding_window:
        return note_sliding_window(known, part, verdict, part_taken(used), asked);
    case Algorithm::sliding_log:
        return note_sliding_log(known, part, verdict, part_taken(used), asked);
    case Algorithm::token_bucket:
    case Algorithm::gcra:
    case Algorithm::leaky_bucket:
        return note_bucket(known, verdict, asked);
    case Algorithm::concurrency:
        return note_slots(known, quota, verdict, asked);
    }
    return std::nullopt;
}

std::optional<Record> release_slots(const std::optional<Record> &known, const Quota &quota,
                                    microseconds taken_at, microseconds now) {
    Slots slots = slots_of(known, now);
    if (slots.units == 0 || taken_at < slots.since) { // it was forgotten
        return std::nullopt;
    }
    slots.units -= std::min(slots.units, quota.to_charge());
    return record_of(slots, quota, now);
}

} // namespace rate_limit
