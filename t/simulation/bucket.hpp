// What is taken of a bucket, as SPEC section 2 says it.
#pragma once

#include "simulation/numbers_of_key.hpp"

#include <algorithm>
#include <cstdint>

namespace simulation {

/// What a bucket has to hold at least, in parts of a unit: one unit comes back in the window.
class Bucket {
  public:
    explicit Bucket(int64_t window_us) : window_us_(window_us) {}

    void pass_to(int64_t now_us, uint64_t limit) {
        taken_ = std::max(Wide{0}, taken_ - Wide{now_us - last_us_} * limit);
        last_us_ = now_us;
    }
    void take(uint64_t units) { taken_ += Wide{units} * window_us_; }
    void give_back(uint64_t units) {
        taken_ = std::max(Wide{0}, taken_ - Wide{units} * window_us_);
    }
    int64_t last_us() const { return last_us_; }
    /// By how much more it would hold than it can, with so many units more.
    Wide excess(uint64_t units, uint64_t capacity) const {
        return taken_ + (Wide{units} - Wide{capacity}) * window_us_;
    }

  private:
    int64_t window_us_;
    Wide taken_ = 0;
    int64_t last_us_ = 0;
};

} // namespace simulation
