// sliding_log: how many units come back when, to an eighth of a window.
//
// values[0]     the last of nine times that are a step, an eighth of the window, apart
// values[1..3]  how many come back at each, the last first: 21 bits each, three to a word
//
// A unit comes back a window after it was taken, at the next of those times. That of what was taken
// when nothing was known is exact: the times are counted from there.

#include "local_algorithms.hpp"

#include <algorithm>
#include <numeric>

namespace rate_limit {

using std::chrono::microseconds;

namespace {

constexpr size_t steps_of_window = 8;
constexpr size_t counters_of_word = 3;
constexpr unsigned counter_bits = 21;
constexpr uint64_t counter_mask = (uint64_t{1} << counter_bits) - 1;

// What is taken after one of the times and before the next comes back at the last, eight later.
using Counters = std::array<uint64_t, steps_of_window + 1>;
static_assert(std::tuple_size_v<Counters> == (std::tuple_size_v<Values> - 1) * counters_of_word);

class Log {
  public:
    /// Without what has come back.
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

    /// When so many, from 1 to the total, have come back.
    microseconds time_of_return(uint64_t units) const {
        size_t i = units_.size() - 1;
        for (uint64_t sum = units_[i]; sum < units && i > 0; sum += units_[i]) {
            --i;
        }
        return time_of_counter(i);
    }

    /// As many of those that come back until then as there are, up to so many.
    uint64_t take_out(uint64_t units, microseconds time) {
        uint64_t taken = 0;
        for (size_t i = units_.size(); i-- > 0 && time_of_counter(i) <= time;) {
            const uint64_t some = std::min(units_[i], units - taken);
            units_[i] -= some;
            taken += some;
        }
        return taken;
    }

    /// Units that come back then, and with the last of the others at the earliest. Where that is
    /// more than a window after the first of the others, these come back later.
    void add(uint64_t units, microseconds time) {
        if (total() == 0) {
            last_ = time;
        }
        if (last_ < time) {
            const int64_t steps = (time - last_ + step_ - microseconds{1}) / step_;
            const auto moved = std::min(steps, static_cast<int64_t>(units_.size()));
            const uint64_t moved_out =
                std::accumulate(units_.end() - moved, units_.end(), uint64_t{0});
            std::shift_right(units_.begin(), units_.end(), moved);
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
    /// A counter holds more than any limit.
    static void add_to(uint64_t &counter, uint64_t units) {
        counter = std::min(counter + units, counter_mask);
    }
    microseconds time_of_counter(size_t i) const { return last_ - static_cast<int64_t>(i) * step_; }

    microseconds step_;
    microseconds last_{0};
    Counters units_{};
};

} // namespace

LocalDecision decide_sliding_log(const std::optional<Record> &known, const Quota &quota,
                                 microseconds now) {
    Log log(known, quota, now);
    const auto wait_for = [&](Wide units) {
        return units > 0 ? (log.time_of_return(static_cast<uint64_t>(units)) - now).count() : 0;
    };
    const Wide left = Wide{quota.limit} - quota.to_charge() - log.total();
    const int64_t wait = quota.cost <= quota.limit ? wait_for(-left) : 0;
    if (left >= 0 && quota.charges()) {
        log.add(quota.to_charge(), now + quota.window);
    }
    const Wide total = log.total();
    const Wide next = std::max<Wide>(total - quota.limit, 0) + 1; // more where it was lowered
    const std::array<int64_t, 4> reply = {static_cast<int64_t>(left),
                                          wait_for(std::min(next, total)), wait_for(total), wait};
    return decision_of(quota, reply, now, log.values());
}

std::optional<Record> note_sliding_log(const std::optional<Record> &known, const Quota &quota,
                                       const Verdict &verdict, uint64_t used, microseconds asked) {
    Log log(known, quota, asked);
    // Those that Redis counts. Round trips may let what comes back first look later than it is.
    const uint64_t counted = log.total_after(asked + verdict.next_unit - log.step());
    uint64_t units = used > counted ? used - counted : 0;
    if (verdict.decision == Decision::granted && quota.cost > units) {
        // these took the place of some that came back, in Redis, since the last of the times
        units += log.take_out(quota.cost - units, asked + log.step());
    }
    if (units == 0) {
        return std::nullopt;
    }
    log.add(units, asked + verdict.reset);
    return Record{.time = asked,
                  .holds_for = log.time_of_return(log.total()) - asked,
                  .values = log.values()};
}

} // namespace rate_limit
