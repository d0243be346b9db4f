#include "simulation/simulated_fleet.hpp"

#include "simulation/drawn_rules.hpp"

#include <array>
#include <memory>

namespace simulation {

namespace {

constexpr Time quiet{200'000'000};       // after it nothing is on its way any more
constexpr Time all_expires{400'000'000}; // longer than any state lives

} // namespace

SimulatedFleet::SimulatedFleet(uint64_t seed, Journal &journal)
    : simulation_(seed, journal),
      clients_(simulation_, hosts_),
      faults_(simulation_, hosts_, clients_) {
    make_hosts();
}

void SimulatedFleet::make_hosts() {
    Chance &chance = simulation_.chance;
    const std::vector<DrawnRule> rules = draw_rules(chance);
    rules_ = rules.size();
    std::vector<RuleWords> directives;
    for (const DrawnRule &rule : rules) {
        std::string line = "rule";
        for (const std::string &word : rule.words) {
            line += " " + word;
        }
        simulation_.write(line);
        simulation_.auditor.add_rule(rule.audited);
        directives.push_back(rule.words);
    }
    constexpr std::array errors{rate_limit::OnError::closed, rate_limit::OnError::open,
                                rate_limit::OnError::local};
    const auto on_error = errors[chance.below(errors.size())];
    const size_t hosts = 1 + chance.below(3);
    for (size_t i = 0; i < hosts; ++i) {
        const Time ahead{chance.between(-1'000'000'000, 1'000'000'000)};
        hosts_.push_back(std::make_unique<SimulatedHost>(simulation_.network, *simulation_.topology,
                                                         ahead, chance.fork(), directives, on_error,
                                                         1 + chance.below(3)));
    }
}

std::vector<std::string> SimulatedFleet::run(Time length) {
    const Time end = simulation_.timeline.now() + length;
    clients_.come_until(end);
    if (simulation_.has_faults) {
        faults_.happen_until(end);
    }
    simulation_.timeline.run(end);
    become_quiet();
    static_cast<FaultCounts &>(simulation_.happened) = simulation_.network.counts;
    return simulation_.auditor.judge();
}

/// No client comes and no fault any more. What is left then is a leak.
void SimulatedFleet::become_quiet() {
    Timeline &timeline = simulation_.timeline;
    simulation_.network.one_fault_in = 0;
    simulation_.topology->recover();
    timeline.run(timeline.now() + quiet);
    clients_.ask_each_worker();
    timeline.run(timeline.now() + quiet);
    clients_.end();
    for (const auto &host : hosts_) {
        for (const auto &worker : host->workers()) {
            if (worker->is_serving()) {
                worker->leave();
            }
        }
    }
    timeline.run(timeline.now() + quiet);
    count_outcomes();
    end_workers();
    timeline.run(timeline.now() + all_expires + simulation_.topology->longest_way_back());
    if (const size_t keys = simulation_.topology->keys(); keys > 0) {
        simulation_.auditor.leave(std::to_string(keys) + " keys in Redis");
    }
    for (const std::string &complaint : simulation_.network.complaints) {
        simulation_.auditor.misbehave(complaint);
    }
}

void SimulatedFleet::count_outcomes() {
    for (size_t rule = 0; rule < rules_; ++rule) {
        uint64_t counted = 0;
        for (const auto &host : hosts_) {
            counted += host->outcomes(rule);
        }
        // A request that is known to be denied counts for the rules alone that deny it.
        const uint64_t least =
            rules_ > 1 ? clients_.passed() : clients_.begun() - clients_.killed();
        simulation_.auditor.count(rule,
                                  {.least = least, .most = clients_.begun(), .counted = counted});
    }
}

void SimulatedFleet::end_workers() {
    for (const auto &host : hosts_) {
        for (const auto &worker : host->workers()) {
            if (!worker->may_end()) {
                simulation_.auditor.leave("a worker that cannot end");
            }
            worker->end();
        }
    }
}

} // namespace simulation
