#include "deny_table.hpp"

#include <algorithm>

namespace rate_limit {

namespace {

using std::chrono::microseconds;

/// A record's values, times in microseconds from when the denial was asked for.
enum Value : size_t { retry_after, next_unit, reset, remaining };

uint64_t count(microseconds time) {
    return static_cast<uint64_t>(time.count());
}

/// What is left of a time that was told so long ago.
microseconds left_of(uint64_t time, microseconds passed) {
    return std::max(microseconds(static_cast<int64_t>(time)) - passed, microseconds::zero());
}

/// Two clocks may differ in their rates by 500 parts in a million, where both are being adjusted.
microseconds less_drift(microseconds time) {
    return time - time / 1024 - microseconds{1};
}

} // namespace

void DenyTable::add(const Hash &hash, const Verdict &denied, microseconds asked,
                    microseconds longest) {
    const microseconds holds_for = std::min(less_drift(denied.retry_after), longest);
    if (holds_for <= microseconds::zero()) {
        return;
    }
    Record record{.time = asked, .holds_for = holds_for, .values = {}};
    record.values[retry_after] = count(denied.retry_after);
    record.values[next_unit] = count(denied.next_unit);
    record.values[reset] = count(denied.reset);
    record.values[remaining] = denied.remaining;
    table_.store(hash, record);
}

std::optional<Verdict> DenyTable::find(const Hash &hash, microseconds now) const {
    const auto record = table_.find(hash, now);
    if (!record || record->time > now) {
        return std::nullopt;
    }
    const microseconds passed = now - record->time;
    const auto &values = record->values;
    return Verdict{.decision = Decision::denied,
                   .remaining = values[remaining],
                   .retry_after = left_of(values[retry_after], passed),
                   .next_unit = left_of(values[next_unit], passed),
                   .reset = left_of(values[reset], passed)};
}

} // namespace rate_limit
