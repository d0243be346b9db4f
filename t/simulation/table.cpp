// The long form of the simulation: many scenarios, and what became of each, as tables of Markdown.
//
//   simulate_leases [TEXT]
//
// It runs the groups of scenarios that have the text in their title: `docs` for the tables of
// docs/leases.md. It fails if more was ever granted than a rule
// allows, or if less than 98 % was where docs/leases.md promises that.

#include "fleet.hpp"

#include <chrono>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace simulation {
namespace {

using namespace std::chrono_literals;
using rate_limit::Algorithm;
using rate_limit::LeaseSetting;

using Algorithms = std::vector<Algorithm>;
using Numbers = std::vector<uint64_t>;
using Demands = std::vector<double>;

// token_bucket and leaky_bucket decide as gcra does.
const Algorithms each = {Algorithm::sliding_log, Algorithm::fixed_window, Algorithm::sliding_window,
                         Algorithm::gcra};
constexpr LeaseSetting automatic{.kind = LeaseSetting::Kind::automatic, .given = {}};

/// Scenarios that are alike: one of each combination.
struct Group {
    std::string_view title;
    Algorithms algorithms;
    Numbers limits;
    Numbers hosts;
    Demands demands;
    std::vector<Arrivals> arrivals = {Arrivals::poisson};
    Time round_trip{200};
    Faults faults{};
    LeaseSetting lease = automatic;
};

// Where a rule is always at its limit, each request asks: of large limits that takes very long.
const std::vector<Group> groups = {
    {"docs: hosts and demand", each, {10'000}, {1, 10}, {0.9, 1, 1.5}},
    {"docs: limits", {Algorithm::sliding_log}, {10, 1'000, 100'000}, {10}, {0.9}},
    {"docs: many hosts", {Algorithm::fixed_window}, {10'000, 100'000}, {100}, {0.9, 3}},
    {"docs: other arrivals",
     {Algorithm::sliding_log, Algorithm::gcra},
     {10'000},
     {10},
     {1},
     {Arrivals::bursts, Arrivals::skewed, Arrivals::wander}},
    {"docs: all at once",
     {Algorithm::sliding_log, Algorithm::fixed_window},
     {1'000},
     {1, 100},
     {1},
     {Arrivals::at_once}},
    {"docs: all at once, with lease=16ms",
     {Algorithm::sliding_log, Algorithm::fixed_window},
     {1'000},
     {1, 100},
     {1},
     {Arrivals::at_once},
     200us,
     {},
     {.kind = LeaseSetting::Kind::given, .given = 16ms}},

    {"Poisson", each, {10, 100, 1'000, 10'000}, {1, 10, 100}, {0.5, 0.9, 1, 1.5, 3}},
    {"Large limits", each, {100'000}, {1, 10, 100}, {0.5, 0.9}},
    {"Large limits, overloaded",
     {Algorithm::sliding_log, Algorithm::fixed_window},
     {100'000},
     {1, 10},
     {1, 3}},
    {"The largest limit of a log", each, {1'000'000}, {1, 100}, {0.9}},
    {"Other arrivals",
     each,
     {100, 10'000},
     {1, 10, 100},
     {0.9, 1, 3},
     {Arrivals::bursts, Arrivals::skewed, Arrivals::wander}},
    {"All at once", each, {1'000}, {1, 10, 100}, {0.5, 1, 3}, {Arrivals::at_once}},
    {"Redis is 20 ms away",
     each,
     {1'000, 10'000},
     {1, 10},
     {0.9, 1, 1.5},
     {Arrivals::poisson, Arrivals::bursts},
     20ms},
    {"A fiftieth of all calls is lost, and hosts live for 20 s",
     each,
     {1'000, 10'000},
     {1, 10, 100},
     {0.9, 1.5},
     {Arrivals::poisson},
     200us,
     {.lost = 0.02, .mean_life = 20s}},
};

class Table {
  public:
    /// Runs the scenarios, and prints a row for each.
    void run(const Group &group) {
        for (const Algorithm algorithm : group.algorithms) {
            for (const uint64_t limit : group.limits) {
                for (const uint64_t hosts : group.hosts) {
                    for (const Arrivals arrivals : group.arrivals) {
                        for (const double demand : group.demands) {
                            run(scenario_of(group, algorithm, limit, hosts, arrivals, demand));
                        }
                    }
                }
            }
        }
    }

    static void print_head(std::string_view title) {
        std::printf("\n%.*s\n\n", static_cast<int>(title.size()), title.data());
        std::printf("| algorithm | N | hosts | demand | arrivals | granted | calls per request | "
                    "granted by leases |\n");
        std::printf("| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: |\n");
    }

    bool is_good() const { return is_good_; }

  private:
    static Scenario scenario_of(const Group &group, Algorithm algorithm, uint64_t limit,
                                uint64_t hosts, Arrivals arrivals, double demand) {
        Scenario scenario;
        scenario.quota.algorithm = algorithm;
        scenario.quota.limit = limit;
        scenario.quota.window = 60s;
        scenario.quota.set_capacity(limit);
        scenario.lease = group.lease;
        scenario.hosts = hosts;
        scenario.arrivals = arrivals;
        scenario.demand = demand;
        scenario.round_trip = group.round_trip;
        scenario.faults = group.faults;
        return scenario;
    }

    void run(const Scenario &scenario) {
        const Outcome outcome = Fleet(scenario, redis_, clock_).run();
        const std::string_view algorithm = rate_limit::to_string(scenario.quota.algorithm);
        const std::string_view arrivals = to_string(scenario.arrivals);
        std::printf("| `%.*s` | %llu | %zu | %g | %.*s | %.2f %% | %.4f | %.1f %% |\n",
                    static_cast<int>(algorithm.size()), algorithm.data(),
                    static_cast<unsigned long long>(scenario.quota.limit), scenario.hosts,
                    scenario.demand, static_cast<int>(arrivals.size()), arrivals.data(),
                    100 * outcome.granted_of_exact(), outcome.calls_of_request(),
                    100 * outcome.by_lease_of_granted());
        std::fflush(stdout);
        if (outcome.too_much_at) {
            complain("more than the rule allows");
        } else if (is_promised(scenario) && outcome.granted_of_exact() < 0.98) {
            complain("less than 98 %");
        }
    }

    /// Whether demand is stationary, and nothing is lost.
    static bool is_promised(const Scenario &scenario) {
        return (scenario.arrivals == Arrivals::poisson || scenario.arrivals == Arrivals::skewed) &&
               scenario.lease.kind == LeaseSetting::Kind::automatic && scenario.faults.lost == 0 &&
               scenario.faults.mean_life.count() == 0;
    }

    void complain(const char *of) {
        std::printf("FAILED: it has granted %s\n", of);
        is_good_ = false;
    }

    model::Redis redis_;
    model::Clock clock_;
    bool is_good_ = true;
};

/// Runs the groups whose title has the text.
int run_groups(std::string_view text) {
    Table table;
    for (const Group &group : groups) {
        if (group.title.find(text) != std::string_view::npos) {
            Table::print_head(group.title);
            table.run(group);
        }
    }
    return table.is_good() ? 0 : 1;
}

} // namespace
} // namespace simulation

int main(int count, char **words) {
    return simulation::run_groups(count > 1 ? words[1] : "");
}
