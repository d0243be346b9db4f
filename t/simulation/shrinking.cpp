#include "simulation/shrinking.hpp"

#include <algorithm>
#include <utility>

namespace simulation {

namespace {

constexpr Time shortest_step{20'000};

class Shrinking {
  public:
    Shrinking(Plan plan, const std::function<Outcome(const Plan &)> &run)
        : plan_(std::move(plan)), run_(run) {}

    /// What is wrong late may be wrong earlier, too.
    void shorten() {
        for (Time step = plan_.length / 2; step >= shortest_step;) {
            Plan shorter = plan_;
            shorter.length -= step;
            step = step < shorter.length && take_if_wrong(std::move(shorter)) ? step : step / 2;
        }
    }

    /// Skips half of all events, then quarters of them, down to single ones.
    void skip_events() {
        const uint64_t events = run_(plan_).events;
        for (uint64_t count = events + 1; count > 0; count /= 2) {
            for (uint64_t first = 0; first <= events; first += count) {
                Plan skips_more = plan_;
                for (uint64_t i = first; i < std::min(first + count, events + 1); ++i) {
                    skips_more.skipped.insert(i);
                }
                if (skips_more.skipped.size() > plan_.skipped.size()) {
                    take_if_wrong(std::move(skips_more));
                }
            }
        }
    }

    const Plan &plan() const { return plan_; }

  private:
    bool take_if_wrong(Plan plan) {
        const bool is_wrong = run_(plan).is_wrong;
        if (is_wrong) {
            plan_ = std::move(plan);
        }
        return is_wrong;
    }

    Plan plan_;
    const std::function<Outcome(const Plan &)> &run_;
};

} // namespace

Plan shrink(Plan plan, const std::function<Outcome(const Plan &)> &run) {
    Shrinking shrinking(std::move(plan), run);
    shrinking.shorten();
    shrinking.skip_events();
    shrinking.shorten();
    return shrinking.plan();
}

} // namespace simulation
