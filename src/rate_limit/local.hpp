// What a rule decides on this host alone, while Redis gives no verdict, from 32 bytes a key that
// the processes of the host share.
//
//     read    known = table.find(hash, now.monotonic)
//     decide  decide_locally(known, ...), each rule of the request
//     store   table.store(hash, *decision.after), each rule, if all of them grant
//
// Nothing here locks or writes. Processes that read, decide and store for one key at the same time
// forget one of the charges, so the three are to be done as one, under the zone's mutex.
//
// Buckets, fixed_window, sliding_window and concurrency decide as their scripts do, from the same
// numbers; here windows are aligned to this host's Unix time. Of sliding_log's entries only how
// many there are in each eighth of a window is kept: there are never more than the limit in any
// window, but a unit comes back up to an eighth of a window later than from Redis.
//
// Times are microseconds of a clock that all processes share and that does not step back; where a
// process is overtaken between reading it and deciding, time stands still.
#pragma once

#include "shared_table.hpp"
#include "verdict.hpp"

#include <chrono>
#include <cstdint>
#include <optional>

namespace rate_limit {

struct Now {
    std::chrono::microseconds monotonic;
    std::chrono::microseconds unix_time; // at which aligned windows begin; nothing else
};

struct LocalDecision {
    Verdict verdict;             // as if no other rule denied
    std::optional<Record> after; // where it is granted and takes something
};

/// Decides from what is known of the key, which may be nothing or from another limit. Where another
/// rule of the request denies, the verdict of a rule that grants is that of a cost of 0. Waiting
/// for retry_after alone, then asking again, grants; not with concurrency.
///
/// Concurrency counts the requests in flight on this host. What is known is forgotten a window
/// after the last of them began or ended: what a worker took that died is given back when a key has
/// been left alone for so long, and that of requests that last longer, too.
LocalDecision decide_locally(const std::optional<Record> &known, const Quota &quota, bool aligned,
                             const Now &now);

/// The numbers of a rule on one of several hosts: the limit and the capacity times percent / 100,
/// rounded down, but at least 1 where they were, and at least what the request costs where the
/// whole could grant it; `percent` is from 1 to 100. A bucket is full again within longest_refill,
/// as the whole is.
Quota scaled(const Quota &quota, uint64_t percent);

/// What is to be known after a verdict of Redis that was asked for at `asked`, so that an outage
/// gives no one a fresh quota; nothing where there is nothing new. `quota` is that of the verdict,
/// with a cost of 0 where the rule granted but was not charged. Of both, `percent` are this host's:
/// of what is taken, too, rounded up.
///
/// It is never less than what was known, for Redis does not know what was granted here. Units come
/// back when Redis said they would, at most a round trip too early: the time of a verdict is known
/// no better. As for what a verdict tells:
///  - buckets, fixed_window: all there is.
///  - sliding_window: how much counts now. What is known of the previous window is taken to be the
///    previous one's part of it; to a unit that is right on a host that sees all of a key's
///    requests. Where nothing is known, all counts as taken in the current window: it comes back
///    later than from Redis, by a window at most.
///  - sliding_log: how many count now. Those that are not known here come back when the last one
///    does. What other hosts took in place of what came back within the last two eighths of a
///    window may be missed.
///  - concurrency: which of the slots are of this host it does not tell; the request's own is
///    counted.
std::optional<Record> record_verdict(const std::optional<Record> &known, const Quota &quota,
                                     const Verdict &verdict, uint64_t percent,
                                     std::chrono::microseconds asked);

/// Concurrency, when the request ends that got its units at `taken_at`, from here or, asked then,
/// from Redis.
std::optional<Record> release_permits(const std::optional<Record> &known, const Quota &quota,
                                      std::chrono::microseconds taken_at,
                                      std::chrono::microseconds now);

} // namespace rate_limit
