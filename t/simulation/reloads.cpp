#include "simulation/reloads.hpp"

#include <memory>
#include <string>
#include <utility>

namespace simulation {

void Reloads::set_configuration(DrawnConfiguration drawn) {
    drawn_ = std::move(drawn);
    for (size_t i = 0; i < drawn_.rules.size(); ++i) {
        std::string line = "rule";
        for (const std::string &word : drawn_.rules[i].words) {
            line += " " + word;
        }
        simulation_.write(line);
        const size_t number = simulation_.auditor.add_rule(drawn_.rules[i].audited);
        first_number_ = i == 0 ? number : first_number_;
    }
}

std::unique_ptr<HostConfiguration> Reloads::make_configuration() const {
    return std::make_unique<HostConfiguration>(drawn_, first_number_, *simulation_.topology);
}

void Reloads::happen_until(Time end) {
    end_ = end;
    go_on();
}

void Reloads::go_on() {
    Timeline &timeline = simulation_.timeline;
    timeline.add(timeline.now() + Time{simulation_.chance.between(500'000, 6'000'000)}, [this] {
        if (simulation_.timeline.now() < end_) {
            happen();
            go_on();
        }
    });
}

/// Hosts that are not reloaded yet go on with the rules before.
void Reloads::happen() {
    Chance &chance = simulation_.chance;
    ++simulation_.happened.changed_configurations;
    set_configuration(redraw(drawn_, chance));
    const int64_t longest_us = chance.one_in(2) ? 20'000 : 2'000'000;
    for (const auto &host : hosts_) {
        const Time when = simulation_.timeline.now() + Time{chance.between(0, longest_us)};
        simulation_.timeline.add(when, [this, &host] {
            simulation_.write("a host is reloaded");
            host->reload(make_configuration());
        });
    }
}

} // namespace simulation
