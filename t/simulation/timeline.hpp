// What happens in a simulation, in the order of its times.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

namespace simulation {

using Time = std::chrono::microseconds;

class Timeline {
  public:
    /// What happens at one time happens in the order in which it was added.
    using Place = std::pair<Time, uint64_t>;

    /// When it begins, by a Unix clock: it is midnight in Johannesburg, before the 25th of
    /// November.
    static constexpr Time began{1'764'021'600'000'000};

    Time now() const { return now_; }
    /// The time of a clock that began some hours before.
    Time since_boot() const { return now_ - began + Time{20'000'000'000}; }
    static constexpr Time of_boot_clock(Time since_boot) {
        return since_boot + began - Time{20'000'000'000};
    }

    /// Adds what happens then, or at once if that time has passed.
    Place add(Time when, std::function<void()> what) {
        const Place place{std::max(when, now_), ++added_};
        events_.emplace(place, std::move(what));
        return place;
    }
    void remove(const Place &place) { events_.erase(place); }

    /// Lets all happen that comes before `end`.
    void run(Time end) {
        while (!events_.empty() && events_.begin()->first.first < end) {
            auto next = events_.extract(events_.begin());
            now_ = next.key().first;
            next.mapped()();
        }
        now_ = end;
    }

  private:
    Time now_ = began;
    uint64_t added_ = 0;
    std::map<Place, std::function<void()>> events_;
};

} // namespace simulation
