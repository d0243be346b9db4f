// All clients of a simulation: when they come, to which host, and what became of them.
#pragma once

#include "simulation/client.hpp"
#include "simulation/looks.hpp"

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace simulation {

using Hosts = std::vector<std::unique_ptr<SimulatedHost>>;

class Clients final : Client::Callbacks {
  public:
    Clients(Simulation &simulation, const Hosts &hosts)
        : simulation_(simulation),
          hosts_(hosts),
          leaving_(simulation.plan.seed ^ 0x1EA5),
          looks_(simulation) {}

    /// Draws how often they come, and their keys.
    void draw(const DrawnConfiguration &configuration);

    /// They come from now on, one after the other, until then.
    void come_until(Time end);
    /// A worker stands still.
    void note_stop(const SimulatedWorker &worker);
    /// A worker was killed, and its requests with it.
    void die_with(const SimulatedWorker &worker);
    /// Frees what those requests held in memory of their workers.
    void end_dead();
    /// Each worker is asked once, and needs so many verdicts of Redis.
    void ask_each_worker(Client::Needed needed);
    bool are_over() const;
    /// Nothing is on its way any more: tells the auditor of requests that have not ended.
    void end();

    uint64_t begun() const { return begun_; }
    /// How many requests the rules of that name must have counted. `what` is the name of an outcome
    /// or of a counter.
    uint64_t counted(const std::string &rule, std::string_view what) const {
        const auto found = counted_.find({rule, std::string(what)});
        return found != counted_.end() ? found->second : 0;
    }
    /// The keys of clients.
    const std::vector<std::string> &keys() const { return keys_; }

  private:
    void come();
    void come_in_waves();
    Time come_about_end(const std::string &key, Time when);
    Time come_about_unused_leases(const std::string &key, Time when);
    SimulatedHost &draw_host() { return *hosts_[simulation_.chance.below(hosts_.size())]; }
    size_t draw_leasing_host_but(std::optional<size_t> host);
    Time drawn_time(int64_t at_most_us) { return Time{simulation_.chance.between(0, at_most_us)}; }
    std::string draw_key();
    void come_to(SimulatedHost &host, const std::string &key);
    void come_at(Time when, SimulatedHost &host, const std::string &key);
    Client &start_request(SimulatedHost &host, SimulatedWorker &worker, const std::string &key);
    void on_counted(const std::string &rule, std::string_view what) override {
        ++counted_[{rule, std::string(what)}];
    }
    void on_decision(SimulatedWorker &worker, size_t rule, const std::string &key,
                     const limiter::AppliedRule &applied) override {
        if (!has_single_requests_) { // what Redis is asked of these is counted
            looks_.on_decision(worker, rule, key, applied);
        }
    }

    Simulation &simulation_;
    const Hosts &hosts_;
    Time end_{0}; // no client comes any more
    std::vector<std::string> keys_;
    size_t drawn_key_ = 0; // the place of the one that came last
    bool fills_lease_books_ = false;
    bool has_single_requests_ = false; // each with a key of its own
    uint64_t single_keys_ = 0;
    Chance leaving_; // of its own: other draws stay as they are
    bool leave_though_nothing_fails_ = false;
    uint64_t last_keys_ = 0;
    Time pause_; // between clients, on average
    // Of the rule, where they come in waves:
    Time refill_{0};
    Time lease_{0};
    uint64_t capacity_ = 0;
    bool has_host_without_leases_ = false;
    std::list<std::unique_ptr<Client>> clients_;
    std::list<std::unique_ptr<Client>> dead_; // their workers know them
    uint64_t begun_ = 0;
    std::map<std::pair<std::string, std::string>, uint64_t> counted_; // by rule, and as what
    Looks looks_;
};

} // namespace simulation
