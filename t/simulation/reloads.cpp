#include "simulation/reloads.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace simulation {

namespace {

constexpr Time longest_roll_out{2'000'000};

} // namespace

void Reloads::set_configuration(DrawnConfiguration drawn) {
    drawn_ = std::move(drawn);
    ++configurations_;
    std::optional<size_t> first_number;
    for (std::vector<DrawnRule> *rules : {&drawn_.rules, &drawn_.rivals}) {
        for (DrawnRule &rule : *rules) {
            std::string line = rules == &drawn_.rivals ? "rival" : "rule";
            for (const std::string &word : rule.words) {
                line += " " + word;
            }
            simulation_.write(line);
            rule.audited.configuration = configurations_;
            const size_t number = simulation_.auditor.add_rule(
                rule.audited, (simulation_.timeline.now() + longest_roll_out).count());
            first_number = first_number.value_or(number);
        }
    }
    first_number_ = *first_number;
}

std::unique_ptr<HostConfiguration> Reloads::make_configuration(bool is_last) const {
    const bool leases_nothing = is_last && drawn_.has_host_without_leases;
    return std::make_unique<HostConfiguration>(leases_nothing ? without_leases(drawn_) : drawn_,
                                               first_number_, *simulation_.topology);
}

void Reloads::happen_until(Time end) {
    simulation_.repeat(end, Time{500'000}, Time{6'000'000}, [this] { happen(); });
}

/// Hosts that are not reloaded yet go on with the rules before.
void Reloads::happen() {
    Chance &chance = simulation_.chance;
    simulation_.hit(&Happened::changed_configurations);
    have_happened_ = true;
    set_configuration(redraw(drawn_, chance));
    const Time longest = chance.one_in(2) ? Time{20'000} : longest_roll_out;
    for (const auto &host : hosts_) {
        const Time when = simulation_.timeline.now() + Time{chance.between(0, longest.count())};
        simulation_.timeline.add(when, [this, &host] {
            simulation_.write("a host is reloaded");
            simulation_.auditor.overrides.lose_worker(simulation_.timeline.now().count());
            host->reload(make_configuration(&host == &hosts_.back()));
        });
    }
}

} // namespace simulation
