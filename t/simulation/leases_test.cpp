// The short form of the simulation. The long one is table.cpp.

#include "fleet.hpp"

#include "rate_limit/algorithms/algorithm.hpp"
#include "unit/rate_limit/algorithms.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace simulation {
namespace {

using namespace std::chrono_literals;
using rate_limit::Algorithm;

class LeasesOfAFleetTest : public testing::TestWithParam<Algorithm> {
  protected:
    static Scenario scenario_of(Algorithm algorithm) {
        Scenario scenario;
        scenario.quota.algorithm = algorithm;
        scenario.quota.limit = 1'000;
        scenario.quota.window = 60s;
        if (rate_limit::is_bucket(algorithm)) {
            scenario.quota.set_capacity(1'000);
            scenario.quota.delay = scenario.quota.burst.value_or(0); // nothing is held back
        }
        scenario.lease.kind = rate_limit::LeaseSetting::Kind::automatic;
        scenario.hosts = 2;
        return scenario;
    }

    Outcome run(const Scenario &scenario) {
        const Outcome outcome = Fleet(scenario, redis_, clock_).run();
        EXPECT_FALSE(outcome.too_much_at);
        return outcome;
    }

    model::Redis redis_;
    model::Clock clock_;
};

// Without leases a simulation has nothing to lose: what it tells of leases is theirs.
TEST_P(LeasesOfAFleetTest, WithoutOnesGrantWhatTheRuleGrants) {
    Scenario scenario = scenario_of(GetParam());
    scenario.lease.kind = rate_limit::LeaseSetting::Kind::off;
    scenario.quota.limit = 100;
    scenario.quota.set_capacity(100);
    scenario.demand = 1.5;
    const Outcome outcome = run(scenario);
    EXPECT_EQ(outcome.by_lease, 0);
    EXPECT_NEAR(outcome.granted_of_exact(), 1, 0.002);
}

TEST_P(LeasesOfAFleetTest, GrantNearlyAllThatTheRuleGrants) {
    for (const double demand : {0.9, 1.0}) {
        SCOPED_TRACE(demand);
        Scenario scenario = scenario_of(GetParam());
        scenario.demand = demand;
        const Outcome outcome = run(scenario);
        EXPECT_GE(outcome.granted_of_exact(), 0.98); // what SPEC promises
        EXPECT_GT(outcome.by_lease_of_granted(), 0.3);
        EXPECT_LT(outcome.calls_of_request(), 0.7);
        EXPECT_EQ(outcome.leased, outcome.by_lease + outcome.returned) << "units were lost";
    }
}

TEST_P(LeasesOfAFleetTest, NeverGrantMoreWhateverIsLost) {
    Scenario scenario = scenario_of(GetParam());
    scenario.arrivals = Arrivals::bursts;
    scenario.demand = 1.5;
    scenario.round_trip = 20ms;
    scenario.faults = {.lost = 0.05, .mean_life = 5s};
    const Outcome outcome = run(scenario);
    EXPECT_GT(outcome.by_lease, 500);
    EXPECT_GT(outcome.returned, 0);
    EXPECT_GT(outcome.unanswered, 50);
}

// Leases that end all the time meet their successors in the book.
TEST_P(LeasesOfAFleetTest, LoseNoUnitsThoughTheyAreShort) {
    Scenario scenario = scenario_of(GetParam());
    scenario.lease = {.kind = rate_limit::LeaseSetting::Kind::given, .given = 1ms};
    scenario.arrivals = Arrivals::at_once;
    scenario.quota.window = 6s;
    scenario.hosts = 1;
    scenario.refills = 4;
    const Outcome outcome = run(scenario);
    EXPECT_GT(outcome.returned, 0);
    EXPECT_EQ(outcome.leased, outcome.by_lease + outcome.returned);
}

INSTANTIATE_TEST_SUITE_P(Each, LeasesOfAFleetTest,
                         testing::ValuesIn(rate_limit::all_but_concurrency), [](const auto &info) {
                             return std::string(rate_limit::to_string(info.param));
                         });

} // namespace
} // namespace simulation
