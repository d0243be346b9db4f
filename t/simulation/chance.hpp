// All chance of a simulation, from its seed.
#pragma once

#include <cstdint>

namespace simulation {

/// SplitMix64. Each part of a simulation has one of its own, so that a draw more in one part does
/// not change what the others draw.
class Chance {
  public:
    explicit Chance(uint64_t seed) : state_(seed) {}

    uint64_t next() {
        uint64_t mixed = state_ += 0x9E3779B97F4A7C15;
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
        return mixed ^ (mixed >> 31);
    }
    /// Returns a number from 0 on, below `end`, which is not 0.
    uint64_t below(uint64_t end) { return next() % end; }
    /// Returns a number from `first` to `last`.
    int64_t between(int64_t first, int64_t last) {
        return first + static_cast<int64_t>(below(static_cast<uint64_t>(last - first) + 1));
    }
    bool one_in(uint64_t n) { return below(n) == 0; }
    /// Makes the chance of another part.
    Chance fork() { return Chance(next()); }

  private:
    uint64_t state_;
};

} // namespace simulation
