// What is explored: a rule, how much may happen at once, and a mistake, if any.
#pragma once

#include "rate_limit/algorithms/algorithm.hpp"

#include <cstddef>
#include <cstdint>

namespace protocol {

/// A time in ticks, counted from now: what is over is not positive. So a state does not tell how
/// long its run has been, and runs of any length have a finite number of states.
using Time = int8_t;
using Units = int8_t;

struct Numbers {
    rate_limit::Algorithm algorithm;
    int capacity; // units that pass at once
    int window;   // of a bucket: the interval in which one unit comes back
    int lease;    // the longest time for which units are leased
    bool aligned = false;
};

/// Ways to get leases wrong. The explorer has to refute each of them: this shows that it would find
/// such a mistake, and what each part of the protocol is for.
enum class Flaw : uint8_t {
    none,

    // What a host does with a lease:
    debit_after_use,      // it uses what Redis has left, and reports later what it has used
    use_past_end,         // it takes units of a lease that has ended, because it does not read the
                          // clock, or reads it first and is stopped before it takes the unit
    use_past_window,      // its lease lasts for the longest time, also past the window's end
    end_from_reply,       // it counts the lease's time from when the answer came
    no_drift,             // it trusts its clock, which is slow by a thousandth
    slow_clock,           // its clock is slower than by a thousandth: it loses each second tick
    merged_leases,        // it adds a lease to the one that it has, with the later end of both
    give_back_to_next,    // it gives a unit back to the lease that came after the unit's own
    return_without_close, // it returns the rest of a lease, of which requests still take
    return_twice,         // it sends a return again

    // What a script does:
    entries_at_now,       // the entries of leased units get the time of the decision
    held_back_only_once,  // a bucket holds a lease's time back in that lease's decision alone
    return_behind_lease,  // a bucket goes back by a return, even behind the end of a lease
    return_of_what_came,  // a bucket goes back by what has come back of itself, too
    return_to_any_window, // a window takes back what was taken in another one
};

struct Setting {
    Numbers numbers;
    size_t hosts = 2;
    size_t fetches = 2; // checks that lease, on their way at once, of all hosts
    size_t returns = 2; // on their way at once
    Units most_leased = 2;
    bool shorter_leases = false;  // rules of the same counter have a shorter `lease=`
    bool key_may_be_lost = false; // once: an operator deletes it, or a failover forgets it
    Flaw flaw = Flaw::none;
    bool tells_hosts_apart = false; // has more states, and makes runs readable
};

} // namespace protocol
