// Operators, who change overrides, ban, exempt and reset clients by the API of any host. What a
// call of the API does stands below nginx: it runs here in a random worker, as there.
#pragma once

#include "simulation/clients.hpp"
#include "simulation/drawn_rules.hpp"
#include "simulation/resets.hpp"
#include "simulation/simulation.hpp"

#include <memory>
#include <string>
#include <vector>

namespace simulation {

class Operators {
  public:
    Operators(Simulation &simulation, const Hosts &hosts);
    ~Operators();
    Operators(const Operators &) = delete;
    Operators &operator=(const Operators &) = delete;

    /// They act from now on until then, on keys and rules of these names.
    void act_until(Time end, Theme theme, const std::vector<std::string> &keys);

  private:
    class Order;

    void act();
    void flush();
    void judge_told_loss();
    std::string draw_rule();
    void write(const std::string &key, const std::string &rule);
    void reset(const std::string &key);

    Simulation &simulation_;
    const Hosts &hosts_;
    const bool forgets_nothing_; // they neither reset clients nor flush
    Time last_act_{0};
    uint64_t flushes_ = 0;
    bool has_stored_ = false; // since the last flush
    std::vector<std::string> keys_;
    // They stay, for their workers may be killed.
    std::vector<std::unique_ptr<Order>> orders_;
    std::vector<std::unique_ptr<Reset>> resets_;
};

} // namespace simulation
