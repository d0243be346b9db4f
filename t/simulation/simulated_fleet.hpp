// A fleet of hosts with their clients and one Redis, and all that can go wrong between them, from
// one seed.
#pragma once

#include "simulation/auditor.hpp"
#include "simulation/journal.hpp"
#include "simulation/simulated_host.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace simulation {

/// How often something happened while it mattered.
struct Happened : FaultCounts {
    uint64_t requests = 0;
    uint64_t granted = 0;
    uint64_t denied = 0;
    uint64_t without_verdict = 0;
    uint64_t leased = 0;
    uint64_t left = 0; // clients, before their request was decided
    uint64_t killed_workers = 0;
    uint64_t reloads = 0; // a worker leaves, another one comes
    uint64_t stopped_workers = 0;
    uint64_t lost_data = 0;
    uint64_t forgotten_scripts = 0;
    uint64_t outages = 0;
    uint64_t returns = 0; // by requests that turned out cheaper
    uint64_t debts = 0;   // by those that did not
};

/// What of it is shown, and under which words.
struct HappenedRow {
    const char *what;
    uint64_t Happened::*count;
};
inline constexpr HappenedRow happened_rows[] = {
    {"requests", &Happened::requests},
    {"granted by Redis", &Happened::granted},
    {"granted by a lease", &Happened::leased},
    {"rejected", &Happened::denied},
    {"settled for less", &Happened::returns},
    {"settled for as much or more", &Happened::debts},
    {"without a verdict", &Happened::without_verdict},
    {"clients that left before", &Happened::left},
    {"connections broken while sending", &Happened::broken_while_sending},
    {"connections broken while answering", &Happened::broken_while_answering},
    {"connections refused", &Happened::refused_connections},
    {"connections without an answer", &Happened::silent_connections},
    {"commands that a stall held up", &Happened::stalls},
    {"commands in pieces", &Happened::split_commands},
    {"replies in pieces", &Happened::split_replies},
    {"outages", &Happened::outages},
    {"outages with loss of data", &Happened::lost_data},
    {"SCRIPT FLUSH", &Happened::forgotten_scripts},
    {"workers killed", &Happened::killed_workers},
    {"workers stopped", &Happened::stopped_workers},
    {"workers that left", &Happened::reloads},
};
static_assert(std::size(happened_rows) * sizeof(uint64_t) == sizeof(Happened));

class SimulatedFleet {
  public:
    SimulatedFleet(uint64_t seed, Journal &journal);
    ~SimulatedFleet();

    /// Lets clients come for so long, and then all become quiet. Returns what is wrong.
    std::vector<std::string> run(Time length);
    const Happened &happened() const { return happened_; }

  private:
    class Client;

    /// Whether Redis is charged what requests are granted, and nothing else.
    bool are_charges_known() const {
        return std::ranges::none_of(
            audited_, [](const AuditedRule &rule) { return rule.has_leases || rule.settles; });
    }
    void draw_rules();
    std::optional<RuleWords> draw_rule(size_t number);
    void come();
    void start_request(SimulatedHost &host, SimulatedWorker &worker);
    void go_wrong();
    void fault();
    void replace_worker(SimulatedHost &host, size_t i, bool is_killed);
    void become_quiet();
    void write(std::string_view line) { journal_.write(timeline_.now(), line); }

    Chance chance_;
    Journal &journal_;
    Timeline timeline_;
    SimulatedRedis redis_;
    Network network_;
    std::vector<RuleWords> rules_;
    std::vector<AuditedRule> audited_;
    std::vector<std::unique_ptr<SimulatedHost>> hosts_;
    std::vector<std::unique_ptr<SimulatedWorker>> gone_; // killed: their memory stays as it was
    std::list<std::unique_ptr<Client>> clients_;
    std::unique_ptr<Auditor> auditor_;
    Happened happened_;
    Time end_{0}; // no client comes any more
    uint64_t begun_ = 0;
    uint64_t passed_ = 0;
    uint64_t killed_ =
        0; // requests that may not have been counted, because their worker was killed
    std::vector<std::pair<Time, const SimulatedWorker *>> abandoned_; // checks, and when
    uint64_t keys_ = 1;
    Time pause_{0}; // between clients, on average
    bool has_faults_ = false;
};

} // namespace simulation
