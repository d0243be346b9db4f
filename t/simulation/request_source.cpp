#include "request_source.hpp"

#include <vector>

namespace simulation {

namespace {

std::discrete_distribution<size_t> hosts_of(const Scenario &scenario) {
    std::vector<double> shares;
    for (size_t i = 0; i < scenario.hosts; ++i) {
        const bool is_skewed = scenario.arrivals == Arrivals::skewed;
        shares.push_back(is_skewed ? 1 / static_cast<double>(i + 1) : 1);
    }
    return {shares.begin(), shares.end()};
}

} // namespace

RequestSource::RequestSource(const Scenario &scenario)
    : scenario_(scenario),
      random_(scenario.seed),
      host_(hosts_of(scenario)),
      refill_(static_cast<double>(scenario.quota.refill().count())),
      gap_(refill_ / static_cast<double>(scenario.quota.capacity()) / scenario.demand) {}

RequestSource::Request RequestSource::next() {
    const Time time = next_time();
    return {.time = time, .host = next_host()};
}

Time RequestSource::next_time() {
    switch (scenario_.arrivals) {
    case Arrivals::bursts:
        time_ += random_time(gap_ / 2);
        while (time_ > phase_end_) {
            const double pause = random_time(refill_ / 32);
            time_ += pause;
            phase_end_ += pause + random_time(refill_ / 32);
        }
        break;
    case Arrivals::at_once:
        if (left_of_burst_ < 1) {
            left_of_burst_ += refill_ / gap_;
            time_ = burst_number_++ * refill_;
        }
        --left_of_burst_;
        time_ += random_time(gap_ / 100);
        break;
    default:
        time_ += random_time(gap_);
    }
    return Time(static_cast<int64_t>(time_));
}

size_t RequestSource::next_host() {
    if (scenario_.arrivals != Arrivals::wander) {
        return host_(random_);
    }
    if (time_ > phase_end_) {
        phase_end_ = time_ + random_time(refill_ / 64);
        wander_host_ = host_(random_);
    }
    return wander_host_;
}

double RequestSource::random_time(double mean) {
    return std::exponential_distribution<double>(1 / mean)(random_);
}

} // namespace simulation
