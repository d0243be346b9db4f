// How many requests were passed and rejected over time, in a bounded number of steps: when there
// are too many, two become one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace replay {

enum class Outcome : uint8_t { passed, delayed, rejected };
inline constexpr size_t outcomes = 3;

class TimeSeries {
  public:
    static constexpr size_t most_steps = 240;
    using Counts = std::array<uint64_t, outcomes>; // by Outcome

    /// Times never step back.
    void count(int64_t time_us, Outcome outcome);

    const std::vector<Counts> &steps() const { return steps_; }
    int64_t begin_s() const { return begin_s_; } // Unix time of the first step
    int64_t step_s() const { return step_s_; }

  private:
    void halve();

    std::vector<Counts> steps_;
    int64_t begin_s_ = 0;
    int64_t step_s_ = 1;
};

} // namespace replay
