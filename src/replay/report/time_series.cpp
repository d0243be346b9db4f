#include "replay/report/time_series.hpp"

namespace replay {

void TimeSeries::count(int64_t time_us, Outcome outcome) {
    const int64_t time_s = time_us / 1'000'000;
    if (steps_.empty()) {
        begin_s_ = time_s;
    }
    while (static_cast<uint64_t>((time_s - begin_s_) / step_s_) >= most_steps) {
        halve();
    }
    const auto step = static_cast<size_t>((time_s - begin_s_) / step_s_);
    if (step >= steps_.size()) {
        steps_.resize(step + 1);
    }
    ++steps_[step][static_cast<size_t>(outcome)];
}

/// Steps begin at multiples of their length, so that they read well.
void TimeSeries::halve() {
    const int64_t longer = step_s_ * 2;
    const int64_t begin = begin_s_ - begin_s_ % longer;
    std::vector<Counts> halved;
    for (size_t i = 0; i < steps_.size(); ++i) {
        const int64_t of_step = begin_s_ + static_cast<int64_t>(i) * step_s_;
        const auto step = static_cast<size_t>((of_step - begin) / longer);
        if (step >= halved.size()) {
            halved.resize(step + 1);
        }
        for (size_t outcome = 0; outcome < outcomes; ++outcome) {
            halved[step][outcome] += steps_[i][outcome];
        }
    }
    steps_ = std::move(halved);
    begin_s_ = begin;
    step_s_ = longer;
}

} // namespace replay
