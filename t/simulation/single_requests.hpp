// Requests of which each has a key of its own at every rule, so that what Redis is asked for a key
// is what its one request must ask.
#pragma once

#include "simulation/audited_rule.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace simulation {

class SingleRequests {
  public:
    /// Redis has run a script with this key of a counter.
    void run(ScriptRun what, std::string_view redis_key);
    /// The client's request has ended, and has cost another number of units than a rule was
    /// charged.
    void end_with_other_cost(const std::string &client);
    /// The client has left before it knew whether this key was charged, and has cost another number
    /// of units than that.
    void leave(std::string_view redis_key);

    /// Returns what is wrong. Where nothing fails each settlement arrives.
    std::vector<std::string> judge(bool nothing_fails) const;

  private:
    struct Client {
        uint64_t least_settlements = 0; // but for those that have left
        uint64_t most_settlements = 0;
        uint64_t settlements = 0;
    };
    struct Checks {
        uint64_t all = 0;
        bool has_charged = false;
    };

    std::map<std::string, Checks> checks_; // by Redis key
    std::map<std::string, Client> clients_;
    std::set<std::string> left_; // Redis keys
};

} // namespace simulation
