#include "simulation/simulated_fleet.hpp"

#include "simulation/drawn_rules.hpp"
#include "simulation/scarce_memory.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

namespace simulation {

namespace {

constexpr Time settling{15'000'000}; // for so long a worker may wait until it connects anew
constexpr Time quiet{200'000'000};   // after it nothing is on its way any more
/// Longer than any state lives: the last month of a calendar goes on for 30 days, and an operator
/// may let 5,000 units come back one by one, in a minute each.
constexpr Time all_expires = std::chrono::days{35};

} // namespace

SimulatedFleet::SimulatedFleet(const Plan &plan, Journal &journal)
    : simulation_(plan, journal),
      clients_(simulation_, hosts_),
      operators_(simulation_, hosts_),
      faults_(simulation_, hosts_, clients_),
      reloads_(simulation_, hosts_) {
    make_hosts();
}

void SimulatedFleet::make_hosts() {
    Chance &chance = simulation_.chance;
    DrawnConfiguration drawn = draw_configuration(chance, simulation_.fixed_windows);
    drawn.max_pending = draw_max_pending(drawn.theme);
    drawn.fills_lease_books =
        drawn.theme == Theme::leases && Chance(simulation_.plan.seed ^ 0xB00C).one_in(4);
    reloads_.set_configuration(std::move(drawn));
    const DrawnConfiguration &configuration = reloads_.configuration();
    clients_.draw(configuration);
    // The smallest zone has tables of a few entries.
    are_zones_smallest_ = chance.one_in(3) || configuration.fills_lease_books;
    const size_t zone_size = are_zones_smallest_ ? size_t{32} << 10 : size_t{1} << 20;
    // What leases do wrong most faults excuse.
    if (configuration.theme == Theme::waves && chance.one_in(2)) {
        simulation_.leave_out_faults();
    }
    // Waves want two that lease.
    const size_t least_hosts = (configuration.theme == Theme::waves ? 2 : 1) +
                               (configuration.has_host_without_leases ? 1 : 0);
    const size_t hosts = std::max(1 + chance.below(3), least_hosts);
    for (size_t i = 0; i < hosts; ++i) {
        const bool is_years_off = simulation_.has_calendars() && chance.one_in(6);
        const Time year = is_years_off ? std::chrono::days{366} : Time{0};
        const SimulatedHost::Machinery machinery{
            .number = i,
            .ahead = Time{chance.between(-1'000'000'000, 1'000'000'000)} + year,
            .zone_size = zone_size,
            .workers = 1 + chance.below(3)};
        hosts_.push_back(
            std::make_unique<SimulatedHost>(simulation_.network, machinery, chance.fork(),
                                            reloads_.make_configuration(i + 1 == hosts)));
    }
}

/// Where so few may be pending, a check or a settlement that a worker never forgets is soon one too
/// many. This changes nothing that the seed draws else.
size_t SimulatedFleet::draw_max_pending(Theme theme) const {
    Chance chance(simulation_.plan.seed ^ 0x9E4D);
    const bool may_have_no_faults = !simulation_.has_faults || theme == Theme::waves;
    return !may_have_no_faults && chance.one_in(3) ? static_cast<size_t>(chance.between(2, 12))
                                                   : DrawnConfiguration().max_pending;
}

std::vector<std::string> SimulatedFleet::run() {
    const Time end = simulation_.timeline.now() + simulation_.plan.length;
    Chance &chance = simulation_.chance;
    simulation_.auditor.set_knows_requests(!simulation_.has_faults);
    simulation_.auditor.set_charges_all_or_none(simulation_.topology->only_redis() != nullptr);
    clients_.come_until(end);
    if (simulation_.has_faults) {
        faults_.happen_until(end);
    } else {
        faults_.happen_harmlessly_until(end);
    }
    const Theme theme = reloads_.configuration().theme;
    if (theme == Theme::operators || chance.one_in(2) || simulation_.loses_newest) {
        operators_.act_until(end, theme, clients_.keys());
    }
    if (chance.one_in(3)) {
        reloads_.happen_until(end);
    }
    judge_now_and_then(end);
    run_until(end);
    simulation_.topology->judge_lives();
    become_quiet();
    static_cast<FaultCounts &>(simulation_.happened) = simulation_.network.counts;
    tell_what_hosts_remember();
    return simulation_.auditor.judge();
}

/// Pools take memory seldom, so it must run out often. This changes nothing that the seed draws
/// else.
void SimulatedFleet::run_until(Time end) {
    Chance chance(simulation_.plan.seed ^ 0x3E30);
    const bool is_scarce = simulation_.has_faults && !simulation_.loses_newest && chance.one_in(4);
    const uint64_t runs_out_one_in = is_scarce ? 3 + chance.below(30) : 0;
    const ScarceMemory scarce(chance, runs_out_one_in, simulation_.happened.scarce_memory);
    simulation_.timeline.run(end);
}

void SimulatedFleet::judge_now_and_then(Time end) {
    constexpr Time pause{250'000};
    simulation_.topology->judge_lives();
    judge_states();
    const Time next = simulation_.timeline.now() + pause;
    if (next < end) {
        simulation_.timeline.add(next, [this, end] { judge_now_and_then(end); });
    }
}

/// Metrics show no backend as up to which no worker of the host has a connection.
void SimulatedFleet::judge_states() {
    for (const auto &host : hosts_) {
        if (host->backend_counts().state == rate_limit::BackendState::up &&
            std::ranges::none_of(
                host->workers(), &SimulatedWorker::has_connection,
                [](const auto &worker) -> auto & { return *worker; })) {
            simulation_.auditor.misbehave("metrics show a backend as up that is out of reach");
        }
    }
}

bool SimulatedFleet::observe(SimulatedRedis::Observer &observer) {
    // What Redis makes of the error that a script raises for such a host differs by its version.
    const bool is_year_wrong =
        std::ranges::any_of(hosts_, [](const auto &host) { return host->is_years_off(); });
    if (!simulation_.has_one_sound_redis() || is_year_wrong) {
        return false;
    }
    simulation_.topology->only_redis()->set_observer(&observer);
    return true;
}

/// No client comes and no fault any more. What is left then is a leak.
void SimulatedFleet::become_quiet() {
    Timeline &timeline = simulation_.timeline;
    simulation_.network.one_fault_in = 0;
    simulation_.topology->recover();
    finish_requests();
    timeline.run(timeline.now() + settling);
    if (!simulation_.topology->tells_of_masters()) {
        clients_.ask_each_worker(Client::Needed::none); // a replica tells that it is none any more
        finish_requests();
    }
    const Time asked = timeline.now();
    clients_.ask_each_worker(Client::Needed::one);
    finish_requests();
    judge_calm();
    judge_permits();
    clients_.end();
    count_leased();
    for (const auto &host : hosts_) {
        judge_backend(*host, asked);
        for (const auto &worker : host->workers()) {
            judge_log(*host, *worker, asked);
            if (worker->is_serving()) {
                worker->leave();
            }
        }
    }
    timeline.run(timeline.now() + quiet);
    count_outcomes();
    count_top_keys();
    end_workers();
    timeline.run(timeline.now() + all_expires + simulation_.topology->longest_way_back());
    if (const size_t keys = simulation_.topology->keys(); keys > 0) {
        simulation_.auditor.leave(std::to_string(keys) + " keys in Redis");
    }
    for (const std::string &complaint : simulation_.network.complaints) {
        simulation_.auditor.misbehave(complaint);
    }
}

/// Workers that know where all keys are have no reason to ask for it.
void SimulatedFleet::judge_calm() {
    const uint64_t asked = simulation_.network.questions_for_maps;
    simulation_.timeline.run(simulation_.timeline.now() + Time{3'000'000});
    if (simulation_.network.questions_for_maps > asked) {
        simulation_.auditor.misbehave("workers ask for the map of a cluster that is well");
    }
}

/// No request is left that could hold a permit, and none that is held falls free by now.
void SimulatedFleet::judge_permits() {
    // A copy may lack what was given back, and a worker that leaves asks only once.
    if (simulation_.has_faults && (have_workers_left() || simulation_.happened.scarce_memory > 0 ||
                                   simulation_.topology->has_copied_data())) {
        return;
    }
    for (const std::string &key : simulation_.topology->keys_of_permits()) {
        simulation_.auditor.leave("permits of " + key);
    }
}

/// A worker that serves and has had a verdict of a Redis that is alone knows that the outage is
/// over, where its check has written or Redis has refused nobody to write. A key of another type
/// may never be asked for again. A host that is years off knows no window of that Redis's clock,
/// and says so.
void SimulatedFleet::judge_log(const SimulatedHost &host, const SimulatedWorker &worker,
                               Time asked) {
    if (simulation_.topology->only_redis() == nullptr || host.is_years_off()) {
        return;
    }
    using Cause = JudgedLog::Cause;
    const FaultCounts &faults = simulation_.network.counts;
    const bool needs_write =
        faults.misconf + faults.no_replicas + faults.out_of_memory + faults.not_permitted > 0;
    const bool is_over = (needs_write ? worker.last_write() : worker.last_verdict()) >= asked;
    const bool is_lasting = (is_over && worker.log().lasting(Cause::redis) > 0) ||
                            worker.log().lasting(Cause::clocks) > 0;
    if (worker.is_serving() && is_lasting) {
        simulation_.auditor.misbehave("a log does not tell the end of an outage");
    }
    if (!simulation_.has_faults && worker.log().outages() > 0) {
        simulation_.auditor.misbehave("a log tells of an outage though nothing is wrong");
    }
}

/// Each check that has failed is told with an outage that has ended. A worker that shuts down may
/// leave some untold. Where a connection is there again an outage ends without a verdict, after a
/// second; its breaker may go on for a fifth of that, and refuse a few more. And a check whose
/// client has left is not sent again if Redis did not run it, which is no fault of Redis, but an
/// error in metrics.
void SimulatedFleet::judge_failures(SimulatedHost &host, const rate_limit::BackendCounts &counts) {
    constexpr uint64_t a_few = 5;
    const uint64_t errors =
        std::accumulate(counts.errors.begin(), counts.errors.end(), uint64_t{0});
    const uint64_t refused = counts.errors[static_cast<size_t>(rate_limit::Failure::breaker)];
    const uint64_t untold = std::min(refused, a_few) + simulation_.happened.left;
    uint64_t told = 0;
    bool is_over = true;
    for (const auto &worker : host.workers()) {
        told += worker->log().failed_checks();
        is_over = is_over && worker->log().lasting() == 0;
    }
    const bool are_all_told = is_over && host.has_first_workers();
    if (told > errors || (are_all_told && told + untold < errors)) {
        simulation_.auditor.misbehave("logs tell of " + std::to_string(told) +
                                      " checks that failed, metrics of " + std::to_string(errors));
    }
}

/// What metrics show of the Redis of a host, when nobody waits for it and all workers have asked
/// it.
void SimulatedFleet::judge_backend(SimulatedHost &host, Time asked) {
    const rate_limit::BackendCounts counts = host.backend_counts();
    if (counts.pending > 0) {
        simulation_.auditor.leave(std::to_string(counts.pending) + " checks in metrics");
    }
    const bool is_asked = std::ranges::any_of(host.workers(), [asked](const auto &worker) {
        return worker->is_serving() && worker->last_verdict() >= asked;
    });
    if (is_asked && counts.state != rate_limit::BackendState::up) {
        simulation_.auditor.misbehave("metrics show a backend that is not up");
    }
    if (is_asked) {
        judge_live_trouble(host.live_trouble());
    }
    judge_failures(host, counts);
    const bool nothing_fails =
        simulation_.has_one_sound_redis() && simulation_.happened.left == 0 && !host.is_years_off();
    if (nothing_fails && std::ranges::any_of(counts.errors, [](uint64_t one) { return one > 0; })) {
        simulation_.auditor.misbehave("metrics show errors though nothing is wrong");
    }
    // A worker that leaves closes what it does not need now, and may need it once more.
    if (nothing_fails && !have_workers_left() &&
        counts.events[static_cast<size_t>(rate_limit::BackendEvent::reconnect)] > 0) {
        simulation_.auditor.misbehave("metrics show reconnects though nothing is wrong");
    }
}

/// A store that a fault has damaged stays so until an operator purges it, which none does, and what
/// no worker knows any more is lost until the next write.
void SimulatedFleet::judge_live_trouble(redis_client::LiveTrouble trouble) {
    using redis_client::LiveTrouble;
    const bool is_lost =
        trouble == LiveTrouble::older && simulation_.auditor.overrides.has_lost_workers();
    const bool is_by_fault = simulation_.has_faults && (trouble == LiveTrouble::damaged || is_lost);
    if (trouble != LiveTrouble::none && !is_by_fault) {
        simulation_.auditor.misbehave("a host does not follow what operators set");
    }
}

void SimulatedFleet::tell_what_hosts_remember() {
    const auto forgets = [](const auto &host) {
        return host->configuration().zone().memory.evictions() > 0;
    };
    if (std::ranges::any_of(hosts_, forgets)) {
        return;
    }
    const std::chrono::microseconds denials = hosts_.front()->configuration().zone().deny_cache;
    simulation_.auditor.set_remembers_denials_for(denials.count());
    simulation_.auditor.set_local_percent(reloads_.configuration().local_percent);
}

void SimulatedFleet::finish_requests() {
    Timeline &timeline = simulation_.timeline;
    const Time end = timeline.now() + quiet;
    while (timeline.now() < end && !clients_.are_over()) {
        timeline.run(timeline.now() + Time{1'000'000});
    }
    timeline.run(timeline.now() + Time{5'000'000});
}

/// Each lease has ended, and what was left of it has gone back, without a request that makes it go.
void SimulatedFleet::count_leased() {
    using rate_limit::RuleCounter;
    // A worker that was killed counts no more. Without memory for a timer what is left of a lease
    // waits for the client's next request.
    if (faults_.have_killed() || simulation_.happened.scarce_memory > 0) {
        return;
    }
    if (have_workers_left()) {
        simulation_.auditor.excuse_lost_units();
    }
    // A worker that stands still may come too late for what is left of a lease whose place another
    // key wants.
    const bool may_lack_ended = are_zones_smallest_ && faults_.have_stopped();
    for (const DrawnRule &rule : reloads_.configuration().rules) {
        const std::string &name = rule.audited.name;
        for (const auto &host : hosts_) {
            const rate_limit::RuleCounts counts = host->counts(name);
            simulation_.auditor.count_leased(
                rule.audited, {.leased = counts.of(RuleCounter::lease_units),
                               .used = counts.of(RuleCounter::lease_units_used),
                               .returned = counts.of(RuleCounter::lease_units_returned),
                               .expired = counts.of(RuleCounter::lease_units_expired),
                               .may_lack_leased = reloads_.have_happened(),
                               .may_lack_ended = may_lack_ended});
        }
    }
}

/// A rule that a reload took away, or brought, is counted somewhere else.
void SimulatedFleet::count_outcomes() {
    // No request is gone before it is decided, and no counter is new.
    const bool is_exact =
        !simulation_.has_faults && simulation_.happened.left == 0 && !reloads_.have_happened();
    for (const DrawnRule &rule : reloads_.configuration().rules) {
        const std::string &name = rule.audited.name;
        uint64_t all = 0; // that must have been counted, by any outcome
        for (const auto &[outcome, what] : rate_limit::rule_outcome_table) {
            all += clients_.counted(name, what);
        }
        const auto judge = [&](std::string_view what, uint64_t most, const auto &count_of) {
            uint64_t counted = 0;
            for (const auto &host : hosts_) {
                counted += count_of(host->counts(name));
            }
            simulation_.auditor.count(
                "rule " + name + " " + std::string(what),
                {.least = clients_.counted(name, what), .most = most, .counted = counted});
        };
        for (const auto &[outcome, what] : rate_limit::rule_outcome_table) {
            const uint64_t others = all - clients_.counted(name, what);
            const uint64_t most = std::max(clients_.begun(), others) - others;
            judge(what, is_exact ? clients_.counted(name, what) : most,
                  [outcome = outcome](const rate_limit::RuleCounts &counts) {
                      return counts.of(outcome);
                  });
        }
        for (const auto &[counter, what] :
             {std::pair{rate_limit::RuleCounter::rejected_by_deny_cache, "rejected_by_deny_cache"},
              std::pair{rate_limit::RuleCounter::rejected_by_override, "rejected_by_override"},
              std::pair{rate_limit::RuleCounter::lease_requests, "lease_requests"}}) {
            judge(what, is_exact ? clients_.counted(name, what) : clients_.begun(),
                  [counter = counter](const rate_limit::RuleCounts &counts) {
                      return counts.of(counter);
                  });
        }
    }
}

/// Each host has a place for each of so many keys.
void SimulatedFleet::count_top_keys() {
    using rate_limit::TopKeys;
    if (clients_.keys().size() > TopKeys::capacity) {
        return;
    }
    std::map<std::string, uint64_t> rejected;
    for (const auto &host : hosts_) {
        TopKeys::Buffer buffer;
        const limiter::Zone &zone = host->configuration().zone();
        for (const TopKeys::Counted &top :
             zone.memory.top_keys().read(TopKeys::Kept::keys, buffer)) {
            rejected[std::string(top.key())] += top.rejected;
        }
    }
    for (const std::string &key : clients_.keys()) {
        const uint64_t known = clients_.counted("key " + key, "rejected");
        simulation_.auditor.count("key " + key + " rejected",
                                  {.least = known,
                                   .most = simulation_.has_faults ? clients_.begun() : known,
                                   .counted = rejected[key]});
    }
}

void SimulatedFleet::end_workers() {
    for (const auto &host : hosts_) {
        for (const auto &worker : host->workers()) {
            if (!worker->has_ended() && !worker->may_end()) {
                simulation_.auditor.leave("a worker that cannot end");
            }
            worker->end();
        }
    }
}

} // namespace simulation
