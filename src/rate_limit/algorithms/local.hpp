// Decisions that this host takes alone while Redis gives no verdict. The processes of the host
// share a record of four numbers for each key. For each rule of a request:
//
//     read    known = table.find(hash, now.monotonic)
//     decide  decision = decide_locally(known, ...)
//     store   table.store(hash, *decision.after), if all rules of the request grant
//
// Nothing here locks or writes. If two processes did these steps for one key at the same time, one
// of the charges would be forgotten. So the caller does the three of them under the zone's mutex.
//
// Buckets, fixed_window, sliding_window and concurrency decide as their scripts do, from the same
// numbers; windows are aligned to this host's Unix time. For sliding_log, a record cannot hold the
// time of each unit. It counts the units of each eighth of a window: they are never more than the
// limit in any window, but a unit comes back up to an eighth of a window later than from Redis.
//
// Times are microseconds of a clock that all processes share and that never steps back. A process
// may be overtaken by another between reading the clock and deciding; then time stands still.
#pragma once

#include "rate_limit/algorithms/local_decision.hpp"

#include <chrono>
#include <cstdint>
#include <optional>

namespace rate_limit {

/// Decides by what is known of the key, which may be nothing, or come from another limit. If
/// another rule of the request denies, the caller replaces the verdict of a rule that grants by the
/// one for a cost of 0. A client that waits for retry_after, while nobody else asks, is granted;
/// this is not so for concurrency.
///
/// Concurrency counts the requests in flight on this host. A record is forgotten a window after the
/// last of its requests began or ended. In this way the permits of a worker that died come back; so
/// do those of a request that takes longer than a window while its key is left alone.
LocalDecision decide_locally(const std::optional<Record> &known, const Quota &quota, bool aligned,
                             const Now &now);

/// Returns the record to keep after the settlement; nothing if it changes nothing. As in Redis, a
/// charge counts now, above the limit, too, and a return only where the request was charged and
/// what it took has not come back, of itself or by other returns. But a sliding_log forgets a debt
/// after a window.
std::optional<Record> settle_locally(const std::optional<Record> &known, const Quota &quota,
                                     const LocalSettlement &settlement, bool aligned,
                                     const Now &now);

/// Returns this host's part of a rule: the limit and the capacity times percent / 100, rounded
/// down. `percent` is from 1 to 100. A number that is not 0 becomes 1 at least, and the capacity
/// has room for the request's cost if that of the whole rule has. The limit of a bucket is raised
/// if it would take longer than longest_refill to fill.
Quota scaled(const Quota &quota, uint64_t percent);

/// Returns the record to keep after a verdict of Redis whose check was sent at `asked`, so that an
/// outage gives nobody a fresh quota; nothing if the verdict adds nothing to what is known. `quota`
/// is that of the verdict, with a cost of 0 if the rule granted but was not charged. This host's
/// part of the quota, and of the units that are taken, rounded up, are `percent` hundredths.
///
/// The record never says that less is taken than was known, for Redis does not know what was
/// granted here. By it, units come back when Redis said that they would, or a round trip earlier,
/// for when Redis decided is not known better. How much a verdict says depends on the algorithm:
///  - A verdict of a bucket or a fixed_window says all that its counter holds.
///  - One of a sliding_window says how many units count now. How many of them are of the previous
///    window is worked out from what is known of that window. On a host that sees all requests of a
///    key this is right to a unit. If nothing is known, all units count as taken in the current
///    window, and come back later than from Redis, by a window at most.
///  - One of a sliding_log says how many units count now. Those that are not known here come back
///    when the last of all does. If other hosts took units in place of some that came back within
///    the last two eighths of a window, these may be missed.
///  - One of concurrency does not say which of the permits are this host's. The request's own is
///    counted.
std::optional<Record> record_verdict(const std::optional<Record> &known, const Quota &quota,
                                     const Verdict &verdict, uint64_t percent,
                                     std::chrono::microseconds asked);

/// Returns the record to keep when a request of a concurrency rule ends; nothing if its permit was
/// forgotten. `taken_at` is when this host gave the permit, or when the check that got it from
/// Redis was sent.
std::optional<Record> release_permits(const std::optional<Record> &known, const Quota &quota,
                                      std::chrono::microseconds taken_at,
                                      std::chrono::microseconds now);

} // namespace rate_limit
