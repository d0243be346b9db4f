#include "simulation/simulated_host.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace simulation {

SimulatedHost::SimulatedHost(Network &network, const Machinery &machinery, Chance chance,
                             std::unique_ptr<HostConfiguration> configuration)
    : network_(network),
      machinery_(machinery),
      chance_(chance),
      backend_memory_(redis_client::BackendMemory::size() / sizeof(Line) + 1),
      zone_memory_(machinery.zone_size / sizeof(Line)) {
    const Time began = boot_now();
    configuration->settings().memory.lay_out(backend_memory_.data(), began);
    configuration->zone().memory.begin(std::as_writable_bytes(std::span(zone_memory_)), *this,
                                       machinery_.zone_size, {chance_.next(), chance_.next()},
                                       began);
    configuration->claim_counters(nullptr);
    configuration->zone().memory.set_latest();
    configurations_.push_back(std::move(configuration));
    for (size_t i = 0; i < machinery_.workers; ++i) {
        add_worker();
    }
}

void SimulatedHost::reload(std::unique_ptr<HostConfiguration> configuration) {
    const HostConfiguration &running = *configurations_.back();
    configuration->settings().memory = running.settings().memory;
    configuration->zone().memory.take_over(running.zone().memory, *this);
    configuration->claim_counters(&running);
    configuration->zone().memory.set_latest();
    configurations_.push_back(std::move(configuration));
    for (const auto &worker : workers_) {
        if (worker->is_serving()) {
            worker->leave();
        }
    }
    for (size_t i = 0; i < machinery_.workers; ++i) {
        add_worker();
    }
}

SimulatedWorker &SimulatedHost::add_worker() {
    const rate_limit::Machine &machine = *this;
    return *workers_.emplace_back(std::make_unique<SimulatedWorker>(
        network_, machine, *configurations_.back(),
        SimulatedWorker::Identity{++last_process_, machinery_.ahead}, chance_.fork()));
}

bool SimulatedHost::is_alive(pid_t process) const {
    return std::ranges::any_of(workers_, [&](const auto &worker) {
        return worker->process() == process && !worker->has_ended();
    });
}

SimulatedWorker &SimulatedHost::draw_serving_worker(Chance &chance) const {
    std::vector<SimulatedWorker *> serving;
    for (const auto &worker : workers_) {
        if (worker->is_serving()) {
            serving.push_back(worker.get());
        }
    }
    return *serving[chance.below(serving.size())];
}

size_t SimulatedHost::lost_stores() const {
    size_t sum = 0;
    for (const auto &worker : workers_) {
        sum += worker->live_log().lost_stores();
    }
    return sum;
}

rate_limit::RuleCounts SimulatedHost::counts(std::string_view name) const {
    const limiter::Rule *rule = configurations_.back()->rule_named(name);
    return rule != nullptr ? rule->counters->read() : rate_limit::RuleCounts{};
}

} // namespace simulation
