#include "rate_limit/tables/deny_cache.hpp"

#include "rate_limit/memory_order.hpp"

#include <algorithm>

namespace rate_limit {

namespace {

using std::chrono::microseconds;

/// Where a record's values are. Times are microseconds from when the check was sent.
struct Denial {
    enum Value : size_t { retry_after, next_unit, reset, remaining };
};

uint64_t count(microseconds time) {
    return static_cast<uint64_t>(time.count());
}

/// The rates of two clocks may differ by a thousandth while both are being adjusted.
microseconds drift_of(microseconds time) {
    return time / 1000 + microseconds{1};
}

/// How much of `time` is left at least after `passed`.
microseconds left_of(uint64_t time, microseconds passed) {
    const microseconds surely_passed = std::max(passed - drift_of(passed), microseconds::zero());
    return std::max(microseconds(static_cast<int64_t>(time)) - surely_passed, microseconds::zero());
}

} // namespace

DenyCache::DenyCache(std::span<std::byte> memory)
    : header_(reinterpret_cast<Header *>(memory.data())), table_(memory.subspan(sizeof(Header))) {}

bool DenyCache::add(const Hash &hash, const Verdict &denied, microseconds certain_for,
                    const CheckTimes &times) {
    const microseconds holds_for = certain_for - drift_of(certain_for);
    if (holds_for <= microseconds::zero()) {
        return true;
    }
    const microseconds under_way = times.answered - times.asked;
    Record record{.time = times.asked, .holds_for = holds_for, .values = {}};
    record.values[Denial::retry_after] = count(denied.retry_after + under_way);
    record.values[Denial::next_unit] = count(denied.next_unit + under_way);
    record.values[Denial::reset] = count(denied.reset + under_way);
    record.values[Denial::remaining] = denied.remaining;
    // This comes first: may_hold() must not say no while there is something to find.
    raise(header_->last_end, count(times.asked + holds_for));
    return table_.store(hash, record);
}

bool DenyCache::may_hold(microseconds now) const {
    return count(now) < header_->last_end.load(relaxed);
}

std::optional<Verdict> DenyCache::find(const Hash &hash, microseconds now,
                                       microseconds longest) const {
    const auto record = table_.find(hash, now);
    if (!record || record->time > now || now - record->time >= longest) {
        return std::nullopt;
    }
    constexpr microseconds soon{1}; // 0 would mean that no unit is missing
    const microseconds passed = now - record->time;
    return Verdict{.decision = Decision::denied,
                   .remaining = record->values[Denial::remaining],
                   .retry_after = left_of(record->values[Denial::retry_after], passed),
                   .next_unit = std::max(left_of(record->values[Denial::next_unit], passed), soon),
                   .reset = left_of(record->values[Denial::reset], passed)};
}

} // namespace rate_limit
