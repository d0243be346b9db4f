// Stops asking a Redis that keeps failing, so that no request waits for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>

namespace redis_client {

class Breaker {
  public:
    /// Times are of a clock that never steps back.
    using Time = std::chrono::milliseconds;

    struct Settings {
        uint64_t failures = 5; // so many in a row open the breaker; 0 never does
        Time cooldown{1000};   // how long it stays open before a probe

        bool operator==(const Settings &) const = default;
    };

    /// Cooldowns differ by up to a fifth, so that the workers of a fleet do not probe all at once.
    /// Each breaker has a `seed` of its own.
    Breaker(Settings settings, uint32_t seed) : settings_(settings), random_(seed) {}

    /// Whether a check may be asked at `now`. An open breaker admits one check for each cooldown,
    /// the probe. A probe whose outcome is never reported holds up the next one no longer than
    /// that.
    bool admits(Time now) { return !is_open_ || is_probe(now); }

    /// A check, or a login, had this outcome.
    void succeed();
    void fail(Time now);

    /// All answers have come, though late, so the next check is the probe. This happens only once
    /// until the breaker closes: a Redis that stays slow is not asked more often.
    void caught_up();

    bool is_open() const { return is_open_; }

  private:
    bool is_probe(Time now);
    Time cooldown_end(Time now);

    Settings settings_;
    std::minstd_rand random_;
    uint64_t failures_in_a_row_ = 0;
    bool is_open_ = false;
    bool has_caught_up_ = false;
    Time next_probe_{0};
};

} // namespace redis_client
