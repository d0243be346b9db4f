#include "simulation/simulated_fleet.hpp"

#include "limiter/limited_request.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace simulation {

namespace {

using limiter::Step;

constexpr Time quiet{200'000'000};       // after it nothing is on its way any more
constexpr Time all_expires{400'000'000}; // longer than any state lives

int64_t us(Time time) {
    return time.count();
}

} // namespace

/// A request of a client, from its coming to its end.
class SimulatedFleet::Client final : limiter::Request {
  public:
    Client(SimulatedFleet &fleet, SimulatedHost &host, SimulatedWorker &worker, std::string key)
        : fleet_(fleet),
          host_(host),
          worker_(worker),
          key_(std::move(key)),
          final_cost_(std::to_string(fleet.chance_.below(6))) {}

    const SimulatedWorker &worker() const { return worker_; }
    bool is_over() const { return is_over_; }
    bool has_begun() const { return limits_ != nullptr; }

    void begin() {
        began_ = fleet_.timeline_.now();
        limits_ = limiter::LimitedRequest::create(worker_.limiter(), *this);
        act(limits_->apply({host_.level(), false}, rate_limit::Phase::access));
    }
    /// The client goes away then.
    void leave_at(Time when) {
        later(when, [this] { leave(); });
    }
    /// Its worker stands still: what it waits for comes late.
    void note_stop() { worker_was_stopped_ = true; }
    /// Its worker was killed: it hears nothing any more.
    void die() {
        is_over_ = true;
        alive_.reset();
        finish_grants(/*settles=*/false);
    }

  private:
    void leave() {
        if (!has_begun()) {
            return; // its worker stands still
        }
        if (!is_decided_) {
            ++fleet_.happened_.left;
            fleet_.write("leaves " + key_);
            if (is_waiting_) {
                limits_->abandon();
                fleet_.abandoned_.emplace_back(fleet_.timeline_.now(), &worker_);
            }
        }
        end();
    }

    std::optional<std::string_view> key(const limiter::Zone &) override { return key_; }
    std::optional<std::string_view> text(const limiter::Rule &, limiter::RuleText) override {
        return final_cost_; // no other text has a variable
    }
    void on_answered() override {
        if (fleet_.has_faults_ && fleet_.chance_.one_in(100)) { // in the same turn
            leave_at(fleet_.timeline_.now());
        }
        later(fleet_.timeline_.now(), [this] {
            is_waiting_ = false;
            const Time waited = fleet_.timeline_.now() - began_;
            if (!worker_was_stopped_) {
                fleet_.auditor_->wait(us(waited), us(SimulatedHost::timeout) + 5'000);
            }
            act(limits_->take_answers());
        });
    }
    void report(const limiter::InvalidNumber &) override {}
    void report_dry_run(const limiter::AppliedRule &) override {}
    void report(limiter::RequestEvent, int64_t, int64_t) override {}

    /// Nothing happens to a request that is over.
    void later(Time when, std::function<void()> what) {
        worker_.later(when, [alive = std::weak_ptr<int>(alive_), what = std::move(what)] {
            if (!alive.expired()) {
                what();
            }
        });
    }

    void act(const Step &step) {
        switch (step.kind) {
        case Step::Kind::wait:
            is_waiting_ = true;
            return;
        case Step::Kind::hold_back:
            note_grants();
            later(fleet_.timeline_.now() + step.decision.delaying->delay(), [this] { serve(); });
            return;
        case Step::Kind::pass:
            note_grants();
            serve();
            return;
        case Step::Kind::reject:
        case Step::Kind::no_memory:
            break;
        }
        is_decided_ = true;
        if (!fleet_.has_faults_ && fleet_.are_charges_known()) {
            note_denials();
        }
        ++fleet_.happened_.denied;
        fleet_.write("rejected " + key_);
        end();
    }

    void serve() {
        is_decided_ = true;
        ++fleet_.passed_;
        fleet_.write("passes " + key_);
        later(fleet_.timeline_.now() + Time{fleet_.chance_.between(0, 200'000)}, [this] { end(); });
    }

    size_t number_of(const limiter::AppliedRule &applied) const {
        return static_cast<size_t>(std::ranges::find(host_.level(), applied.rule) -
                                   host_.level().begin());
    }
    void note_grants() {
        for (const limiter::AppliedRule *one = limits_->rules().first(); one != nullptr;
             one = one->next) {
            if (one->verdict() == nullptr) {
                ++fleet_.happened_.without_verdict;
                continue;
            }
            const bool is_leased = one->is_decided_by(limiter::RuleResult::Source::lease);
            if (!is_leased && !one->is_decided_by(limiter::RuleResult::Source::redis)) {
                continue; // by this host alone
            }
            ++(is_leased ? fleet_.happened_.leased : fleet_.happened_.granted);
            const Time decided = is_leased ? Timeline::of_boot_clock(one->result.decided())
                                           : one->result.decided() - fleet_.redis_.ahead();
            grants_.emplace_back(number_of(*one),
                                 Grant{.time_us = us(decided),
                                       .cost = one->quota.cost,
                                       .by = is_leased ? GrantedBy::lease : GrantedBy::redis});
        }
    }
    void note_denials() {
        for (const limiter::AppliedRule *one = limits_->rules().first(); one != nullptr;
             one = one->next) {
            if (one->denies() && one->is_decided_by(limiter::RuleResult::Source::redis)) {
                fleet_.auditor_->deny(number_of(*one), key_,
                                      us(one->result.decided() - fleet_.redis_.ahead()),
                                      one->quota.cost);
            }
        }
    }
    void finish_grants(bool settles) {
        for (auto &[rule, grant] : grants_) {
            grant.ended_us = us(fleet_.timeline_.now());
            if (settles && fleet_.audited_[rule].settles) {
                grant.final_cost = std::stoul(final_cost_);
                ++(grant.returned() > 0 ? fleet_.happened_.returns : fleet_.happened_.debts);
            }
            fleet_.auditor_->grant(rule, key_, grant);
        }
        grants_.clear();
    }

    void end() {
        finish_grants(/*settles=*/true);
        is_over_ = true;
        alive_.reset();
        limits_->settle();
        limits_->end();
    }

    SimulatedFleet &fleet_;
    SimulatedHost &host_;
    SimulatedWorker &worker_;
    std::string key_;
    std::string final_cost_;
    Time began_{0};
    limiter::LimitedRequest *limits_ = nullptr;
    bool is_over_ = false;
    bool is_waiting_ = false;
    bool is_decided_ = false;
    bool worker_was_stopped_ = false;
    std::shared_ptr<int> alive_ = std::make_shared<int>();
    std::vector<std::pair<size_t, Grant>> grants_;
};

SimulatedFleet::SimulatedFleet(uint64_t seed, Journal &journal)
    : chance_(seed),
      journal_(journal),
      redis_(timeline_, Time{chance_.between(-3'000'000'000, 3'000'000'000)}),
      network_(timeline_, redis_, chance_.fork()) {
    has_faults_ = !chance_.one_in(4);
    network_.one_fault_in = has_faults_ ? 20 + chance_.below(2000) : 0;
    keys_ = 1 + chance_.below(4);
    pause_ = Time{chance_.between(300, 20'000)};
    draw_rules();
    auditor_ = std::make_unique<Auditor>(audited_);
    constexpr std::array errors{rate_limit::OnError::closed, rate_limit::OnError::open,
                                rate_limit::OnError::local};
    const auto on_error = errors[chance_.below(errors.size())];
    const size_t hosts = 1 + chance_.below(3);
    for (size_t i = 0; i < hosts; ++i) {
        const Time ahead{chance_.between(-1'000'000'000, 1'000'000'000)};
        hosts_.push_back(std::make_unique<SimulatedHost>(network_, ahead, chance_.fork(), rules_,
                                                         on_error, 1 + chance_.below(3)));
    }
}

/// Killed workers take their memory with them, as it was.
SimulatedFleet::~SimulatedFleet() {
    for (auto &worker : gone_) {
        (void)worker.release();
    }
}

std::optional<RuleWords> SimulatedFleet::draw_rule(size_t number) {
    static constexpr std::array algorithms{"sliding_log",  "fixed_window", "sliding_window",
                                           "token_bucket", "gcra",         "leaky_bucket",
                                           "concurrency"};
    AuditedRule audited;
    audited.algorithm = algorithms[chance_.below(algorithms.size())];
    static constexpr std::array<uint64_t, 4> largest_limits{5, 5, 200, 5000};
    audited.limit = 1 + chance_.below(largest_limits[chance_.below(largest_limits.size())]);
    const bool is_concurrency = audited.algorithm == "concurrency";
    const int64_t window_ms = is_concurrency ? 60'000 : chance_.between(20, 3000);
    audited.window_us = window_ms * 1000;
    RuleWords words{"algorithm=" + audited.algorithm, "limit=" + std::to_string(audited.limit),
                    "window=" + std::to_string(window_ms) + "ms",
                    "name=r" + std::to_string(number)};
    const bool is_bucket = audited.algorithm == "token_bucket" || audited.algorithm == "gcra" ||
                           audited.algorithm == "leaky_bucket";
    if (is_bucket && chance_.one_in(2)) {
        words.push_back("burst=" + std::to_string(1 + chance_.below(50)));
    }
    if (!is_concurrency && chance_.one_in(3)) {
        words.push_back(chance_.one_in(2)
                            ? "lease=auto"
                            : "lease=" + std::to_string(chance_.between(5, 700)) + "ms");
        audited.has_leases = true;
    }
    if (!is_concurrency && chance_.one_in(4)) {
        words.push_back("cost=" + std::to_string(1 + chance_.below(3)));
    }
    if (!is_concurrency && chance_.one_in(3)) {
        words.emplace_back("final_cost=$f");
        audited.settles = true;
    }
    std::vector<std::string_view> all{"zone=z"};
    all.insert(all.end(), words.begin(), words.end());
    limiter::Rule rule;
    std::vector<std::string> warnings;
    if (rate_limit::read_rule(all, rule, warnings)) {
        return std::nullopt;
    }
    audited.capacity = is_bucket ? rule.rule.quota.capacity() : 0;
    audited_.push_back(audited);
    return words;
}

void SimulatedFleet::draw_rules() {
    const size_t count = 1 + chance_.below(3);
    while (rules_.size() < count) {
        if (auto words = draw_rule(rules_.size())) {
            std::string line = "rule";
            for (const std::string &word : *words) {
                line += " " + word;
            }
            write(line);
            rules_.push_back(std::move(*words));
        }
    }
}

std::vector<std::string> SimulatedFleet::run(Time length) {
    end_ = timeline_.now() + length;
    come();
    if (has_faults_) {
        go_wrong();
    }
    timeline_.run(end_);
    become_quiet();
    static_cast<FaultCounts &>(happened_) = network_.counts;
    return auditor_->judge();
}

/// Clients come one after the other, sometimes many at once.
void SimulatedFleet::come() {
    if (timeline_.now() >= end_) {
        return;
    }
    std::erase_if(clients_, [](const auto &client) { return client->is_over(); });
    for (uint64_t i = chance_.one_in(20) ? 1 + chance_.below(20) : 1; i > 0; --i) {
        SimulatedHost &host = *hosts_[chance_.below(hosts_.size())];
        std::vector<SimulatedWorker *> serving;
        for (const auto &worker : host.workers()) {
            if (worker->is_serving()) {
                serving.push_back(worker.get());
            }
        }
        start_request(host, *serving[chance_.below(serving.size())]);
    }
    timeline_.add(timeline_.now() + Time{chance_.between(0, 2 * us(pause_))}, [this] { come(); });
}

void SimulatedFleet::start_request(SimulatedHost &host, SimulatedWorker &worker) {
    const std::string key = "k" + std::to_string(chance_.below(keys_));
    Client &client = *clients_.emplace_back(std::make_unique<Client>(*this, host, worker, key));
    worker.later(timeline_.now(), [this, &client] {
        ++happened_.requests;
        ++begun_;
        client.begin();
    });
    if (has_faults_ && chance_.one_in(20)) {
        client.leave_at(timeline_.now() + Time{chance_.between(0, 3'000)});
    }
}

void SimulatedFleet::go_wrong() {
    timeline_.add(timeline_.now() + Time{chance_.between(10'000, 1'500'000)}, [this] {
        if (timeline_.now() < end_) {
            fault();
            go_wrong();
        }
    });
}

void SimulatedFleet::fault() {
    const Time now = timeline_.now();
    SimulatedHost &host = *hosts_[chance_.below(hosts_.size())];
    const size_t i = chance_.below(host.workers().size());
    switch (chance_.below(8)) {
    case 0:
        write("Redis stands still");
        network_.stalled_until = now + Time{chance_.between(1'000, 300'000)};
        break;
    case 1: {
        write("Redis is down");
        ++happened_.outages;
        network_.is_down = true;
        const auto connections = network_.connections;
        std::ranges::for_each(connections, &SimulatedConnection::cut);
        const bool loses_data = chance_.one_in(2);
        timeline_.add(now + Time{chance_.between(1'000, 500'000)}, [this, loses_data] {
            network_.is_down = false;
            if (loses_data) {
                write("without its data");
                ++happened_.lost_data;
                redis_.lose_data();
                auditor_->lose_data(us(timeline_.now()));
            }
        });
        break;
    }
    case 2:
        write("SCRIPT FLUSH");
        ++happened_.forgotten_scripts;
        redis_.forget_scripts();
        break;
    case 3:
        write("a worker stands still");
        ++happened_.stopped_workers;
        host.workers()[i]->stop_until(now + Time{chance_.between(1'000, 400'000)});
        for (const auto &client : clients_) {
            if (&client->worker() == host.workers()[i].get()) {
                client->note_stop();
            }
        }
        break;
    case 4:
        write("a worker is killed");
        ++happened_.killed_workers;
        replace_worker(host, i, true);
        break;
    case 5:
        write("a worker leaves");
        ++happened_.reloads;
        replace_worker(host, i, false);
        break;
    case 6: {
        write("Redis loads its data");
        redis_.set_mood(SimulatedRedis::Mood::loading);
        timeline_.add(now + Time{chance_.between(1'000, 200'000)},
                      [this] { redis_.set_mood(SimulatedRedis::Mood::well); });
        break;
    }
    default: {
        write("Redis is a replica");
        redis_.set_mood(SimulatedRedis::Mood::read_only);
        timeline_.add(now + Time{chance_.between(1'000, 200'000)},
                      [this] { redis_.set_mood(SimulatedRedis::Mood::well); });
    }
    }
}

void SimulatedFleet::replace_worker(SimulatedHost &host, size_t i, bool is_killed) {
    SimulatedWorker &worker = *host.workers()[i];
    host.add_worker();
    if (!is_killed) {
        worker.leave();
        return;
    }
    worker.kill();
    for (const auto &client : clients_) {
        if (&client->worker() == &worker && !client->is_over()) {
            killed_ += client->has_begun() ? 1 : 0;
            client->die();
        }
    }
    // Their answers may have been on their way, or have waited while the worker stood still.
    killed_ += static_cast<uint64_t>(std::ranges::count_if(abandoned_, [&](const auto &one) {
        return one.second == &worker && one.first > timeline_.now() - Time{1'000'000};
    }));
    gone_.push_back(std::move(host.workers()[i]));
    host.workers().erase(host.workers().begin() + static_cast<ptrdiff_t>(i));
}

/// No client comes and no fault any more. What is left then is a leak.
void SimulatedFleet::become_quiet() {
    network_.one_fault_in = 0;
    timeline_.run(timeline_.now() + quiet);
    for (const auto &client : clients_) {
        if (!client->is_over()) {
            auditor_->leave("a request");
        }
    }
    clients_.clear();
    for (const auto &host : hosts_) {
        for (const auto &worker : host->workers()) {
            if (worker->is_serving()) {
                worker->leave();
            }
        }
    }
    timeline_.run(timeline_.now() + quiet);
    for (size_t rule = 0; rule < rules_.size(); ++rule) {
        uint64_t counted = 0;
        for (const auto &host : hosts_) {
            counted += host->outcomes(rule);
        }
        // A request that is known to be denied counts for the rules alone that deny it.
        const uint64_t least = rules_.size() > 1 ? passed_ : begun_ - killed_;
        auditor_->count(rule, {.least = least, .most = begun_, .counted = counted});
    }
    for (const auto &host : hosts_) {
        for (const auto &worker : host->workers()) {
            if (!worker->may_end()) {
                auditor_->leave("a worker that cannot end");
            }
            worker->end();
        }
    }
    timeline_.run(timeline_.now() + all_expires);
    if (redis_.keys() > 0) {
        auditor_->leave(std::to_string(redis_.keys()) + " keys in Redis");
    }
}

} // namespace simulation
