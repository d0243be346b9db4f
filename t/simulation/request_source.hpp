// When requests of one key come, and to which host.
#pragma once

#include "scenario.hpp"

#include <cstddef>
#include <cstdint>
#include <random>

namespace simulation {

class RequestSource {
  public:
    explicit RequestSource(const Scenario &scenario);

    struct Request {
        Time time;
        size_t host;
    };
    /// They come in the order of their times, without an end.
    Request next();

  private:
    Time next_time();
    size_t next_host();
    double random_time(double mean); // with an exponential distribution

    const Scenario &scenario_;
    std::mt19937_64 random_;
    std::discrete_distribution<size_t> host_;
    // Microseconds:
    double refill_;
    double gap_; // the mean one between two requests
    double time_ = 0;
    double phase_end_ = 0; // of a burst, or of the stay at one host
    double burst_number_ = 0;
    double left_of_burst_ = 0; // requests that come at once
    size_t wander_host_ = 0;
};

} // namespace simulation
