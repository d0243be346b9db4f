// What a configuration is for the workers of a simulated host: settings, a zone and its rules.
#pragma once

#include "limiter/linking.hpp"
#include "limiter/zone_memory.hpp"
#include "simulation/drawn_rules.hpp"
#include "simulation/redis/topology.hpp"

#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
#include <vector>

namespace simulation {

class HostConfiguration {
  public:
    /// The auditor knows the rules by numbers from `first_number` on, in their order. The memory is
    /// yet to be begun or taken over.
    HostConfiguration(const DrawnConfiguration &drawn, size_t first_number,
                      const Topology &topology);
    HostConfiguration(const HostConfiguration &) = delete;
    HostConfiguration &operator=(const HostConfiguration &) = delete;

    /// Gives the rules their counters, in the zone's memory. `running` is the configuration before,
    /// or null.
    void claim_counters(const HostConfiguration *running);

    const redis_client::BackendSettings &settings() const { return settings_; }
    redis_client::BackendSettings &settings() { return settings_; }
    const limiter::Zone &zone() const { return zone_; }
    limiter::Zone &zone() { return zone_; }
    const limiter::RuleList &level() const { return level_; }
    /// Returns the rules of another location, which have the same counters. There may be none.
    const limiter::RuleList &rivals() const { return rivals_; }
    size_t number_of(const limiter::Rule &rule) const { return numbers_.at(&rule); }
    bool has_precontent() const;
    /// Returns the rule of that name, or null.
    const limiter::Rule *rule_named(std::string_view name) const;
    size_t first_number() const { return first_number_; }

    static constexpr std::chrono::milliseconds timeout{100};

  private:
    size_t first_number_;
    redis_client::BackendSettings settings_{0, "default"};
    limiter::Zone zone_;
    std::deque<limiter::Rule> rules_;
    std::map<const limiter::Rule *, size_t> numbers_; // looked up only
    limiter::RuleList level_;
    limiter::RuleList rivals_;
};

} // namespace simulation
