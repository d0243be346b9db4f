// All clients of a simulation: when they come, to which host, and what became of them.
#pragma once

#include "simulation/client.hpp"

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace simulation {

using Hosts = std::vector<std::unique_ptr<SimulatedHost>>;

class Clients final : Client::Callbacks {
  public:
    Clients(Simulation &simulation, const Hosts &hosts);

    /// They come from now on, one after the other, until then.
    void come_until(Time end);
    /// A worker stands still.
    void note_stop(const SimulatedWorker &worker);
    /// A worker was killed, and its requests with it.
    void die_with(const SimulatedWorker &worker);
    /// All is well again: each worker is asked once, and must have a verdict of Redis.
    void ask_each_worker();
    /// Nothing is on its way any more: tells the auditor of requests that have not ended.
    void end();

    uint64_t begun() const { return begun_; }
    uint64_t passed() const { return passed_; }
    /// Requests that may not have been counted, because their worker was killed.
    uint64_t killed() const { return killed_; }

  private:
    void come();
    Client &start_request(SimulatedHost &host, SimulatedWorker &worker, const std::string &key);
    void on_pass() override { ++passed_; }
    void on_abandon(const SimulatedWorker &worker) override;

    Simulation &simulation_;
    const Hosts &hosts_;
    Time end_{0}; // no client comes any more
    uint64_t keys_;
    Time pause_; // between clients, on average
    std::list<std::unique_ptr<Client>> clients_;
    uint64_t begun_ = 0;
    uint64_t passed_ = 0;
    uint64_t killed_ = 0;
    std::vector<std::pair<Time, const SimulatedWorker *>> abandoned_; // checks, and when
};

} // namespace simulation
