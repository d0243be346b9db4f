// What a simulation is about: a rule with leases, the hosts that share it, and the requests that
// come.
#pragma once

#include "rate_limit/rule/rule.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace simulation {

/// Times of the simulation are microseconds since its begin.
using Time = std::chrono::microseconds;

/// How the requests are spread over time and hosts.
enum class Arrivals : uint8_t {
    poisson, // one by one, at any host
    bursts,  // twice as many for a 32nd of the refill time on average, then none for as long
    skewed,  // one by one, at the hosts as 1, 1/2, 1/3, ... of them
    wander,  // one by one, all at one host for a 64th of the refill time on average, then another
    at_once, // those of a refill time within a 100th of it, at exact intervals
};

struct Faults {
    double lost = 0;   // this part of all calls is lost, on its way to Redis or back
    Time mean_life{0}; // of a host or its worker, which then begins anew; 0: they live on
};

struct Scenario {
    rate_limit::Quota quota; // whose cost is 1
    bool aligned = false;
    rate_limit::LeaseSetting lease;
    size_t hosts = 1;
    Arrivals arrivals = Arrivals::poisson;
    double demand = 1; // requests come so many times as often as the rule grants them
    int refills = 10;  // the simulation ends after so many refill times of the rule
    Time round_trip{200};
    Faults faults;
    uint64_t seed = 1;

    Time length() const { return refills * quota.refill(); }
};

constexpr std::string_view to_string(Arrivals arrivals) {
    switch (arrivals) {
    case Arrivals::poisson:
        return "Poisson";
    case Arrivals::bursts:
        return "bursts";
    case Arrivals::skewed:
        return "skewed";
    case Arrivals::wander:
        return "wandering";
    case Arrivals::at_once:
        return "all at once";
    }
    return {};
}

} // namespace simulation
