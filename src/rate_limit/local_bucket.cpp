// token_bucket, gcra and leaky_bucket, as lua/gcra.lua has them.
//
// values[0]  the time at which all units are there again, microseconds
// values[1]  its fraction, in so many parts of one
// values[2]  the parts

#include "local_algorithms.hpp"

namespace rate_limit {

using std::chrono::microseconds;

namespace {

/// How far that time lies ahead, in parts of a microsecond.
Wide ahead_of(const Record &known, microseconds now, uint64_t parts) {
    Wide ahead = Wide{(time_of(known.values[0]) - now).count()} * parts;
    if (known.values[2] == parts) {
        ahead += known.values[1];
    } else if (known.values[1] > 0) { // the limit has changed: rounded, against the client
        ahead += parts;
    }
    return std::max<Wide>(ahead, 0);
}

} // namespace

LocalDecision decide_bucket(const std::optional<Record> &known, const Quota &quota,
                            microseconds now) {
    const Interval interval(quota);
    const Wide parts = interval.parts;
    Wide ahead = known ? ahead_of(*known, now, interval.parts) : 0;
    const BucketTime time = time_to_charge(quota);
    const Wide next = ahead + Wide{time.us} * parts + time.fraction;
    const bool fits = next <= Wide{quota.capacity()} * interval.length;
    if (fits) {
        ahead = next;
    }
    const auto whole = static_cast<int64_t>(ahead / parts);
    const auto fraction = static_cast<int64_t>(ahead % parts);
    const std::array<int64_t, 3> reply = {fits ? whole : -1 - whole, fraction, 0};
    return decision_of(
        quota, reply, now,
        {word_of(now + microseconds(whole)), static_cast<uint64_t>(fraction), interval.parts, 0});
}

std::optional<Record> note_bucket(const std::optional<Record> &known, const Verdict &verdict,
                                  microseconds asked) {
    const microseconds all_there = asked + verdict.reset;
    if (known && time_of(known->values[0]) >= all_there) {
        return std::nullopt;
    }
    return Record{
        .time = asked, .holds_for = verdict.reset, .values = {word_of(all_there), 0, 1, 0}};
}

} // namespace rate_limit
