#include "rules.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace protocol {

namespace {

using rate_limit::Algorithm;

int sum(const UnitsOfTicks &units) {
    return std::accumulate(units.begin(), units.end(), 0);
}

/// Makes room for the units of the tick that begins.
void age(UnitsOfTicks &by_age, int window) {
    std::shift_right(by_age.begin(), by_age.end(), 1);
    by_age[0] = 0;
    std::fill(by_age.begin() + window, by_age.end(), Units{0});
}

Units plus(Units units, int more) {
    return static_cast<Units>(units + more);
}

Units less(Units units, int fewer) {
    return static_cast<Units>(std::max(units - fewer, 0));
}

/// Lets a tick pass. A time that is over stays at 0.
void come_nearer(Time &time) {
    time = less(time, 1);
}

/// lua/fixed_window.lua. Promises `capacity` units in each window.
class FixedWindow final : public Rule {
  public:
    using Rule::Rule;

    bool charge(Key &key) const override { return take(key, 1); }
    Time receipt(const Key &key) const override { return key.window_end; }

    Leased lease(Key &key, Units units, Time longest) const override {
        if (!take(key, units)) {
            return {};
        }
        const Time usable_for =
            has(Flaw::use_past_window) ? longest : std::min(longest, key.window_end);
        return {.units = units, .usable_for = usable_for, .receipt = key.window_end};
    }

    void give_back(Key &key, Units units, Time receipt) const override {
        const bool is_its_window = key.window_end == receipt || has(Flaw::return_to_any_window);
        if (key.window_end == 0 || !is_its_window) {
            return;
        }
        key.taken = less(key.taken, units);
        if (key.taken == 0) { // the first unit begins a window
            key.window_end = 0;
        }
    }

    bool is_over(const Key & /*key*/, Time receipt) const override {
        return receipt <= 0 && !has(Flaw::return_to_any_window);
    }

    void pass(Key &key, Granted &granted) const override {
        if (numbers_.aligned) {
            key.since_multiple = static_cast<Time>((key.since_multiple + 1) % numbers_.window);
        }
        come_nearer(key.window_end);
        if (key.window_end == 0) {
            key.taken = 0;
        }
        come_nearer(granted.window_end);
        if (granted.window_end == 0) {
            granted.in_window = 0;
        }
    }

    /// A unit counts in the window in which a client gets it. Where windows are not aligned, that
    /// is the one that Redis has begun, and there has to be one.
    bool grant(Granted &granted, const Key &key, int quotas) const override {
        const Time window_end = numbers_.aligned ? left_of_aligned(key) : key.window_end;
        const bool is_in_a_window =
            window_end > 0 && (granted.in_window == 0 || granted.window_end == window_end);
        granted.window_end = window_end;
        granted.in_window = plus(granted.in_window, 1);
        return is_in_a_window && granted.in_window <= quotas * numbers_.capacity;
    }

  private:
    bool take(Key &key, Units units) const {
        if (key.taken + units > numbers_.capacity) {
            return false;
        }
        if (key.window_end == 0) {
            key.window_end = left_of_aligned(key); // all of it where windows are not aligned
        }
        key.taken = plus(key.taken, units);
        return true;
    }

    Time left_of_aligned(const Key &key) const {
        return static_cast<Time>(numbers_.window - key.since_multiple);
    }
};

/// lua/sliding_log.lua. Promises `capacity` units in any window.
class SlidingLog final : public Rule {
  public:
    using Rule::Rule;

    bool charge(Key &key) const override { return add(key, 1, 0); }
    Time receipt(const Key &key) const override { return newest(key); }

    Leased lease(Key &key, Units units, Time longest) const override {
        if (!add(key, units, has(Flaw::entries_at_now) ? Time{0} : longest)) {
            return {};
        }
        return {.units = units, .usable_for = longest, .receipt = newest(key)};
    }

    void give_back(Key &key, Units units, Time receipt) const override {
        if (receipt >= first_time()) {
            Units &entries = at(key, receipt);
            entries = less(entries, units);
        }
    }

    bool is_over(const Key & /*key*/, Time receipt) const override {
        return receipt < first_time();
    }

    void pass(Key &key, Granted &granted) const override {
        std::shift_left(key.entries.begin(), key.entries.end(), 1);
        key.entries.back() = 0;
        age(granted.by_age, numbers_.window);
    }

    bool grant(Granted &granted, const Key & /*key*/, int quotas) const override {
        granted.by_age[0] = plus(granted.by_age[0], 1);
        return sum(granted.by_age) <= quotas * numbers_.capacity;
    }

  private:
    /// An entry of time t counts while t > now - window.
    Time first_time() const { return static_cast<Time>(1 - numbers_.window); }
    Units &at(Key &key, Time time) const {
        return key.entries[static_cast<size_t>(time - first_time())];
    }

    /// The time of the last entry, or one that does not count.
    Time newest(const Key &key) const {
        const auto last = std::find_if(key.entries.rbegin(), key.entries.rend(),
                                       [](Units units) { return units > 0; });
        return static_cast<Time>(first_time() + (key.entries.rend() - last) - 1);
    }

    /// Adds entries of that time, or of the newest one's if that is later.
    bool add(Key &key, Units units, Time time) const {
        if (sum(key.entries) + units > numbers_.capacity) {
            return false;
        }
        Units &entries = at(key, std::max(newest(key), time));
        entries = plus(entries, units);
        return true;
    }
};

/// lua/sliding_window.lua. Promises that its formula holds for what clients got, whenever one gets
/// a unit, and less than two times `capacity` in any window.
class SlidingWindow final : public Rule {
  public:
    using Rule::Rule;

    bool charge(Key &key) const override { return take(key, 1); }
    Time receipt(const Key &key) const override { return static_cast<Time>(-key.since_multiple); }

    Leased lease(Key &key, Units units, Time longest) const override {
        if (!take(key, units)) {
            return {};
        }
        const auto left = static_cast<Time>(numbers_.window - key.since_multiple);
        return {.units = units,
                .usable_for = has(Flaw::use_past_window) ? longest : std::min(longest, left),
                .receipt = receipt(key)};
    }

    void give_back(Key &key, Units units, Time receipt) const override {
        const int windows_ago = (-key.since_multiple - receipt) / numbers_.window;
        if (windows_ago == 0 || has(Flaw::return_to_any_window)) {
            key.taken = less(key.taken, units);
        } else if (windows_ago == 1) {
            key.taken_before = less(key.taken_before, units);
        }
    }

    bool is_over(const Key &key, Time receipt) const override {
        return receipt < -key.since_multiple - numbers_.window && !has(Flaw::return_to_any_window);
    }

    void pass(Key &key, Granted &granted) const override {
        age(granted.by_age, numbers_.window);
        if (++key.since_multiple == numbers_.window) {
            key.since_multiple = 0;
            key.taken_before = std::exchange(key.taken, 0);
            granted.in_window_before = std::exchange(granted.in_window, 0);
        }
    }

    bool grant(Granted &granted, const Key &key, int quotas) const override {
        granted.by_age[0] = plus(granted.by_age[0], 1);
        granted.in_window = plus(granted.in_window, 1);
        const int limit = quotas * numbers_.capacity;
        return fits(granted.in_window_before, granted.in_window, key.since_multiple, limit) &&
               sum(granted.by_age) <= 2 * limit - 1;
    }

  private:
    bool fits(int before, int current, int elapsed, int limit) const {
        return before * (numbers_.window - elapsed) <= (limit - current) * numbers_.window;
    }

    bool take(Key &key, Units units) const {
        if (!fits(key.taken_before, key.taken + units, key.since_multiple, numbers_.capacity)) {
            return false;
        }
        key.taken = plus(key.taken, units);
        return true;
    }
};

/// lua/bucket.lua, of whole intervals. Promises at most `capacity` - 1 units, and one for each
/// interval begun, in any time: what another bucket grants that knows nothing but what clients got.
class Bucket final : public Rule {
  public:
    using Rule::Rule;

    bool charge(Key &key) const override { return move_on(key.arrival, 0, 1, numbers_.capacity); }
    Time receipt(const Key &key) const override {
        return static_cast<Time>(key.arrival + key.moved_back);
    }

    Leased lease(Key &key, Units units, Time longest) const override {
        const Time before = key.arrival;
        if (!move_on(key.arrival, longest, units, numbers_.capacity)) {
            return {};
        }
        if (has(Flaw::held_back_only_once)) {
            key.arrival = before;
            move_on(key.arrival, 0, units, numbers_.capacity);
        }
        key.lease_end = std::max(key.lease_end, longest);
        return {.units = units, .usable_for = longest, .receipt = receipt(key)};
    }

    void give_back(Key &key, Units units, Time receipt) const override {
        const int time = units * numbers_.window;
        const int still_taken =
            receipt - key.moved_back - (has(Flaw::return_behind_lease) ? Time{0} : key.lease_end);
        const int back = has(Flaw::return_of_what_came) ? time : std::clamp(still_taken, 0, time);
        key.arrival = less(key.arrival, back);
        key.moved_back = plus(key.moved_back, back);
    }

    bool is_over(const Key &key, Time receipt) const override {
        return receipt <= key.moved_back && !has(Flaw::return_of_what_came);
    }

    void pass(Key &key, Granted &granted) const override {
        come_nearer(key.arrival);
        come_nearer(key.lease_end);
        come_nearer(granted.arrival);
    }

    bool grant(Granted &granted, const Key & /*key*/, int quotas) const override {
        return move_on(granted.arrival, 0, 1, quotas * numbers_.capacity);
    }

  private:
    /// Takes units as if they were taken at that time.
    bool move_on(Time &arrival, Time time, Units units, int capacity) const {
        const int next = std::max(arrival, time) + units * numbers_.window;
        if (next > capacity * numbers_.window) {
            return false;
        }
        arrival = static_cast<Time>(next);
        return true;
    }
};

} // namespace

std::unique_ptr<Rule> rule_of(const Numbers &numbers, Flaw flaw) {
    switch (numbers.algorithm) {
    case Algorithm::fixed_window:
        return std::make_unique<FixedWindow>(numbers, flaw);
    case Algorithm::sliding_log:
        return std::make_unique<SlidingLog>(numbers, flaw);
    case Algorithm::sliding_window:
        return std::make_unique<SlidingWindow>(numbers, flaw);
    default:
        return std::make_unique<Bucket>(numbers, flaw);
    }
}

} // namespace protocol
