// fixed_window and sliding_window, as lua/fixed_window.lua and lua/sliding_window.lua have them.
//
// values[0]  the current window's end, microseconds
// values[1]  the units taken in it
// values[2]  of a sliding window: those taken in the window before

#include "local_algorithms.hpp"

#include <algorithm>

namespace rate_limit {

using std::chrono::microseconds;

namespace {

struct Windows {
    microseconds end;
    uint64_t current;
    uint64_t previous;

    Values values() const { return {word_of(end), current, previous, 0}; }
};

Windows windows_of(const Record &known) {
    return {time_of(known.values[0]), known.values[1], known.values[2]};
}

/// The end of the window that begins last, at a multiple of its length in Unix time.
microseconds aligned_end(const Now &now, microseconds length) {
    return now.monotonic + length - now.unix_time % length;
}

/// How much of what was taken in the window before counts at that time, rounded up.
uint64_t counted_of_previous(const Windows &windows, microseconds time, microseconds length) {
    const microseconds overlap = std::clamp(windows.end - time, microseconds::zero(), length);
    const Wide counted = Wide{windows.previous} * overlap.count() + length.count() - 1;
    return static_cast<uint64_t>(counted / length.count());
}

/// How many windows have ended at that time since the current one was the current one.
int64_t windows_ended(const Windows &windows, microseconds time, microseconds length) {
    return windows.end <= time ? (time - windows.end) / length + 1 : 0;
}

/// `count` windows later.
void move_on(Windows &windows, int64_t count, microseconds length) {
    for (int64_t i = 0; i < std::min<int64_t>(count, 2); ++i) {
        windows.previous = windows.current;
        windows.current = 0;
    }
    windows.end += length * count;
}

} // namespace

LocalDecision decide_fixed_window(const std::optional<Record> &known, const Quota &quota,
                                  bool aligned, const Now &now) {
    const microseconds length = quota.window;
    Windows window{};
    if (known) {
        window = windows_of(*known);
    }
    if (window.end <= now.monotonic) {
        window = {};
        window.end = aligned ? aligned_end(now, length) : now.monotonic + length;
    }
    const Wide left = Wide{quota.limit} - quota.to_charge() - window.current;
    if (left >= 0) {
        window.current += quota.to_charge();
    }
    const std::array<int64_t, 2> reply = {static_cast<int64_t>(left),
                                          (window.end - now.monotonic).count()};
    return decision_of(quota, reply, now.monotonic, window.values());
}

LocalDecision decide_sliding_window(const std::optional<Record> &known, const Quota &quota,
                                    const Now &now) {
    const microseconds length = quota.window;
    Windows windows{};
    if (known) {
        windows = windows_of(*known);
        move_on(windows, windows_ended(windows, now.monotonic, length), length);
    }
    if (windows.current == 0 && windows.previous == 0) {
        windows.end = aligned_end(now, length);
    }
    const microseconds overlap = std::min(windows.end - now.monotonic, length);
    const Wide free = Wide{quota.limit} - quota.to_charge() - windows.current;
    const bool fits = Wide{windows.previous} * overlap.count() <= free * length.count();
    if (fits) {
        windows.current += quota.to_charge();
    }
    const auto previous = static_cast<int64_t>(windows.previous);
    const std::array<int64_t, 3> reply = {fits ? previous : -1 - previous,
                                          static_cast<int64_t>(windows.current),
                                          (now.monotonic - (windows.end - length)).count()};
    return decision_of(quota, reply, now.monotonic, windows.values());
}

std::optional<Record> note_fixed_window(const std::optional<Record> &known, const Quota &quota,
                                        const Verdict &verdict, uint64_t used, microseconds asked) {
    const microseconds length = quota.window;
    const microseconds longest_overlap = length - length / 8; // else round trips make it look so
    Windows window{.end = asked + verdict.reset, .current = used, .previous = 0};
    if (known) {
        const Windows before = windows_of(*known);
        // beyond its length a window ends where the clock of Redis stepped back
        const microseconds later = std::min(window.end, asked + length) - before.end;
        if (later < -longest_overlap) {
            return std::nullopt;
        }
        if (before.end > asked && later <= longest_overlap) {
            window.end = std::max(window.end, before.end);
            window.current = std::max(window.current, before.current);
        }
        if (window.values() == known->values) {
            return std::nullopt;
        }
    }
    return Record{.time = asked, .holds_for = window.end - asked, .values = window.values()};
}

// A verdict's reset is what is left of the current window, and one window more where something was
// taken in it: verdict.cpp. So it tells Redis's own windows, and whether there is a current one.
std::optional<Record> note_sliding_window(const std::optional<Record> &known, const Quota &quota,
                                          const Verdict &verdict, uint64_t used,
                                          microseconds asked) {
    const microseconds length = quota.window;
    const bool has_current = verdict.reset > length;
    const microseconds left =
        std::min(has_current ? verdict.reset - length : verdict.reset, length);
    Windows windows{.end = asked + left, .current = 0, .previous = 0};
    if (known) {
        windows = windows_of(*known);
        const microseconds later = asked + left - windows.end + length / 2;
        if (later < microseconds::zero()) {
            return std::nullopt;
        }
        const int64_t count = later / length;
        const int64_t ended = windows_ended(windows, asked, length);
        move_on(windows, std::min(count, ended), length);
        if (count > ended) { // clocks differ: one has ended in Redis that goes on here
            const uint64_t of_previous = counted_of_previous(windows, asked, length);
            move_on(windows, count - ended, length);
            windows.previous += of_previous;
        }
        windows.end = std::max(windows.end, asked + left);
    }
    if (has_current) {
        const Wide of_previous = Wide{windows.previous} * left.count() / length.count();
        windows.current =
            std::max(windows.current, static_cast<uint64_t>(std::max<Wide>(used - of_previous, 0)));
    } else {
        const Wide of_previous = Wide{used} * length.count() / left.count();
        const Wide most = largest_number; // should the numbers not be those of one verdict
        windows.previous =
            std::max(windows.previous, static_cast<uint64_t>(std::min(of_previous, most)));
    }
    if (known && windows.values() == known->values) {
        return std::nullopt;
    }
    const microseconds more = windows.current > 0 ? length : microseconds::zero();
    return Record{
        .time = asked, .holds_for = windows.end + more - asked, .values = windows.values()};
}

} // namespace rate_limit
