#include "simulation/simulated_host.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <span>
#include <string_view>

namespace simulation {

SimulatedHost::SimulatedHost(Network &network, const Topology &topology, Time ahead, Chance chance,
                             const std::vector<RuleWords> &rules, rate_limit::OnError on_error,
                             size_t workers)
    : network_(network),
      ahead_(ahead),
      chance_(chance),
      backend_memory_(redis_client::BackendMemory::size() / sizeof(Line) + 1) {
    const Time began = network.timeline.since_boot() + ahead;
    settings_.memory.lay_out(backend_memory_.data(), began);
    settings_.session.timeout = timeout;
    topology.configure(settings_);
    zone_.name = "z";
    zone_.backend = &settings_;
    zone_.on_error = on_error;
    zone_.memory.begin(std::as_writable_bytes(std::span(zone_memory_)), *this, zone_size,
                       {chance_.next(), chance_.next()}, began);
    std::vector<rate_limit::RuleParameters *> parameters;
    std::vector<limiter::Rule *> pointers;
    for (const RuleWords &words : rules) {
        std::vector<std::string_view> all{"zone=z"};
        all.insert(all.end(), words.begin(), words.end());
        limiter::Rule &rule = rules_.emplace_back();
        std::vector<std::string> warnings;
        if (rate_limit::read_rule(all, rule, warnings)) {
            abort(); // who draws rules looks first
        }
        parameters.push_back(&rule);
        pointers.push_back(&rule);
        level_.push_back(&rule);
    }
    rate_limit::decide_other_limits(parameters);
    rate_limit::RuleCounterTable counters = zone_.memory.rule_counters();
    counters.begin_generation();
    for (limiter::Rule &rule : rules_) {
        rule.complete(zone_);
        rule.first_of_name = &rule;
        rule.counters = &counters.claim(rate_limit::hash_of(zone_.memory.seed(), rule.name));
    }
    const limiter::Level level{level_, false};
    limiter::link_rules(
        pointers, std::span(&level, 1), [this](const limiter::Rule &) -> auto & {
            return settings_.session;
        });
    for (size_t i = 0; i < workers; ++i) {
        add_worker();
    }
}

SimulatedWorker &SimulatedHost::add_worker() {
    const rate_limit::Machine &machine = *this;
    return *workers_.emplace_back(std::make_unique<SimulatedWorker>(
        network_, machine, ++last_process_, ahead_, chance_.fork()));
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

uint64_t SimulatedHost::outcomes(size_t rule) const {
    const auto counts = rules_[rule].counters->read().outcomes;
    return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

} // namespace simulation
