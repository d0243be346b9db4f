// An operator's order to reset a client, step by step: which counters any host has for the zone,
// their deletion, and the record that tells all hosts. The commands are those of the API.
#pragma once

#include "simulation/simulated_worker.hpp"
#include "simulation/simulation.hpp"

#include "redis_client/control/counter_deletion.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace simulation {

class Reset {
  public:
    Reset(Simulation &simulation, SimulatedWorker &worker, std::string key);
    ~Reset();
    Reset(const Reset &) = delete;
    Reset &operator=(const Reset &) = delete;

    void begin();

  private:
    class Step;

    void run(std::function<bool(redis_client::ByteQueue &)> write,
             std::function<void(redis_client::ReplyView)> go_on, uint16_t hash_slot);
    void find(redis_client::Registry registry, uint64_t cursor);
    void delete_next();
    void tell();

    Simulation &simulation_;
    SimulatedWorker &worker_;
    std::string key_;
    std::string encoded_key_;
    const redis_client::BackendSettings &settings_;
    redis_client::CounterOwner owner_;
    redis_client::CounterDeletion deletion_;
    std::unique_ptr<Step> step_; // that was run last
    Time sent_{0};
};

} // namespace simulation
