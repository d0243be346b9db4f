// sliding_log: see lua/sliding_log.lua.
//
// Of the log's entries this host keeps only how many units come back when, to an eighth of a
// window: a unit comes back a window after it was taken, at the next of nine times that are an
// eighth of the window apart. The first unit's time is exact, for the times are counted from it.
//
// A record's values[0]     the last of the nine times, microseconds
//                   [1..3]  how many units come back at each, the last first: 21 bits each, three
//                           to a word

#include "rate_limit/algorithms/algorithm_helpers.hpp"
#include "rate_limit/embed.hpp"

#include <algorithm>
#include <numeric>

EMBED(redis_rate_limit_lua_sliding_log, "lua/sliding_log.lua");

namespace rate_limit::sliding_log {

namespace {

using std::chrono::microseconds;

/// The reply is { left, next, reset, wait }. The script's wait is for what is still to be charged.
/// A client that comes again is charged for its whole cost: where that is more, it is told to wait
/// until all units are there.
std::optional<Verdict> verdict_of(const Quota &quota, RuleReply reply, bool charged) {
    if (!can_be_left(quota, reply[0]) || reply[1] < 0 || reply[2] < 0 || reply[3] < 0) {
        return std::nullopt;
    }
    // Where units only have to be free, the script is told a limit that is lower by these.
    const bool waits_for_one = quota.to_keep_free() > 0 && reply[0] < 0;
    const int64_t next_unit = reply[waits_for_one ? 3 : 1];
    return Verdict{.decision = decision_of(quota, reply[0] >= 0),
                   .remaining = remaining_of(quota, reply[0], charged),
                   .retry_after = microseconds(reply[quota.charged == 0 ? 3 : 2]),
                   .next_unit = microseconds(next_unit),
                   .reset = microseconds(reply[2])};
}

/// The newest entries are those of the lease then. They are the oldest ones, too, if there were
/// none.
void add_lease(const Quota &quota, std::span<int64_t> reply, RuleReply lease) {
    const bool was_empty = reply[2] == 0;
    reply[0] -= lease[0];
    reply[2] = lease[2] + microseconds(quota.window).count();
    reply[1] = was_empty ? reply[2] : reply[1];
}

constexpr size_t steps_of_window = 8;
constexpr size_t counters_of_word = 3;
constexpr unsigned counter_bits = 21;
constexpr uint64_t counter_mask = (uint64_t{1} << counter_bits) - 1;

// What is taken between two of the times comes back at the ninth after the first of these two.
using Counters = std::array<uint64_t, steps_of_window + 1>;
static_assert(std::tuple_size_v<Counters> == (std::tuple_size_v<Values> - 1) * counters_of_word);

class Log {
  public:
    /// Takes what is known, but for the units that have come back.
    Log(const std::optional<Record> &known, const Quota &quota, microseconds now)
        : step_(microseconds(quota.window) / steps_of_window) {
        if (!known) {
            return;
        }
        last_ = time_of(known->values[0]);
        for (size_t i = 0; i < units_.size(); ++i) {
            const uint64_t word = known->values[1 + i / counters_of_word];
            units_[i] = word >> (i % counters_of_word * counter_bits) & counter_mask;
            if (time_of_counter(i) <= now) {
                units_[i] = 0;
            }
        }
    }

    uint64_t total() const { return std::accumulate(units_.begin(), units_.end(), uint64_t{0}); }

    uint64_t total_after(microseconds time) const {
        uint64_t total = 0;
        for (size_t i = 0; i < units_.size() && time_of_counter(i) > time; ++i) {
            total += units_[i];
        }
        return total;
    }

    /// The time at which so many units, from 1 to the total, have come back.
    microseconds time_of_return(uint64_t units) const {
        size_t i = units_.size() - 1;
        for (uint64_t sum = units_[i]; sum < units && i > 0; sum += units_[i]) {
            --i;
        }
        return time_of_counter(i);
    }

    /// Removes up to so many of the units that come back until that time, and returns how many.
    uint64_t take_out(uint64_t units, microseconds time) {
        uint64_t taken = 0;
        for (size_t i = units_.size(); i-- > 0 && time_of_counter(i) <= time;) {
            const uint64_t some = std::min(units_[i], units - taken);
            units_[i] -= some;
            taken += some;
        }
        return taken;
    }

    /// Removes up to so many of the units that come back at that very time.
    void take_out_at(uint64_t units, microseconds time) {
        for (size_t i = 0; i < units_.size(); ++i) {
            if (time_of_counter(i) == time) {
                units_[i] -= std::min(units_[i], units);
            }
        }
    }

    /// Adds units that come back at that time, but not before the last of the others. Of those that
    /// are more than a window earlier, the time of return is put off.
    void add(uint64_t units, microseconds time) {
        if (total() == 0) {
            last_ = time;
        }
        if (last_ < time) {
            const int64_t steps = (time - last_ + step_ - microseconds{1}) / step_;
            const auto moved = std::min(steps, static_cast<int64_t>(units_.size()));
            const uint64_t moved_out =
                std::accumulate(units_.end() - moved, units_.end(), uint64_t{0});
            std::move_backward(units_.begin(), units_.end() - moved, units_.end());
            std::fill_n(units_.begin(), moved, 0);
            last_ += steps * step_;
            add_to(units_.back(), moved_out);
        }
        add_to(units_.front(), units);
    }

    microseconds step() const { return step_; }

    Values values() const {
        Values values{word_of(last_)};
        for (size_t i = 0; i < units_.size(); ++i) {
            values[1 + i / counters_of_word] |= units_[i] << (i % counters_of_word * counter_bits);
        }
        return values;
    }

  private:
    /// Adds up to what a counter holds, which is more than any limit.
    static void add_to(uint64_t &counter, uint64_t units) {
        counter = std::min(counter + units, counter_mask);
    }
    microseconds time_of_counter(size_t i) const { return last_ - static_cast<int64_t>(i) * step_; }

    microseconds step_;
    microseconds last_{0};
    Counters units_{};
};

LocalDecision decide(const std::optional<Record> &known, const Quota &quota, bool /*aligned*/,
                     const Now &now) {
    Log log(known, quota, now.monotonic);
    const auto wait_for = [&](Wide units) {
        return units > 0
                   ? (log.time_of_return(static_cast<uint64_t>(units)) - now.monotonic).count()
                   : 0;
    };
    const Wide left = Wide{quota.limit} - quota.to_keep_free() - quota.to_charge() - log.total();
    const int64_t wait = quota.cost <= quota.limit ? wait_for(-left) : 0;
    if (left >= 0 && quota.charges()) {
        log.add(quota.to_charge(), now.monotonic + quota.window);
    }
    const Wide total = log.total();
    // Where the limit was lowered, several units have to come back before one more is there.
    const Wide next = std::max<Wide>(total - quota.limit, 0) + 1;
    const std::array<int64_t, 4> reply = {static_cast<int64_t>(left),
                                          wait_for(std::min(next, total)), wait_for(total), wait};
    return decision_of_reply(quota, reply, now.monotonic, log.values());
}

std::optional<Record> settle(const std::optional<Record> &known, const Quota &quota,
                             const LocalSettlement &settlement, bool /*aligned*/, const Now &now) {
    Log log(known, quota, now.monotonic);
    log.take_out_at(settlement.to_return, microseconds(settlement.receipt) + quota.window);
    if (settlement.to_charge > 0) {
        log.add(settlement.to_charge, now.monotonic + quota.window);
    }
    return Record{.time = now.monotonic,
                  .holds_for = log.time_of_return(log.total()) - now.monotonic,
                  .values = log.values()};
}

std::optional<Record> record(const std::optional<Record> &known, const RedisVerdict &redis) {
    const auto &[verdict, quota, part, used, asked] = redis;
    Log log(known, part, asked);
    // These are the units known here that Redis counts, too. By a round trip, what comes back first
    // may look later there than it is known here: hence a step less.
    const uint64_t counted = log.total_after(asked + verdict.next_unit - log.step());
    uint64_t units = used > counted ? used - counted : 0;
    if (verdict.decision == Decision::granted && part.cost > units) {
        // In Redis, these took the place of units that came back since the last of the times.
        units += log.take_out(part.cost - units, asked + log.step());
    }
    if (units == 0) {
        return std::nullopt;
    }
    log.add(units, asked + verdict.reset);
    return Record{.time = asked,
                  .holds_for = log.time_of_return(log.total()) - asked,
                  .values = log.values()};
}

} // namespace

constinit const AlgorithmFamily family = {
    .script =
        [] {
            return embedded(redis_rate_limit_lua_sliding_log, redis_rate_limit_lua_sliding_log_end);
        },
    .letter = 'l',
    .check_arguments = limit_cost_and_window,
    .debt_arguments = limit_cost_and_window,
    .lease_arguments = no_arguments,
    .refund_arguments = cost_and_window,
    // The script puts the expiry off once in an eighth of the window.
    .longest_state = [](const Quota &quota) { return microseconds(quota.window) * 9 / 8; },
    .verdict_of_reply = verdict_of,
    // the time of the newest entries
    .receipt_of_reply =
        [](const Quota &quota, RuleReply reply, int64_t now) {
            return now - microseconds(quota.window).count() + reply[2];
        },
    .add_lease = add_lease,
    .decide_locally = decide,
    .record_verdict = record,
    .settle_locally = settle,
};

} // namespace rate_limit::sliding_log
