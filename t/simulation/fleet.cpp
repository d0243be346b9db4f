#include "fleet.hpp"

#include "rate_limit/rule/leasing.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <tuple>

namespace simulation {

using rate_limit::LeaseBook;
using redis_client::Charge;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

constexpr std::string_view redis_key = "simulated";
constexpr rate_limit::Hash identity{.low = 1, .high = 2};
constexpr microseconds timeout = milliseconds{100};           // of a backend, by default
constexpr microseconds longest_denial = milliseconds{60'000}; // of a zone, by default

/// A simulation without answers is none.
void require_none(const std::string &error) {
    if (!error.empty()) {
        std::fprintf(stderr, "Redis says: %s\n", error.c_str());
        std::abort();
    }
}

double ratio(uint64_t part, uint64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 1;
}

} // namespace

double Outcome::granted_of_exact() const {
    return ratio(granted, exact);
}

double Outcome::by_lease_of_granted() const {
    return ratio(by_lease, granted);
}

double Outcome::calls_of_request() const {
    return ratio(std::accumulate(calls.begin(), calls.end(), uint64_t{0}), requests);
}

bool Fleet::Event::operator>(const Event &other) const {
    return std::tie(time, number) > std::tie(other.time, other.number);
}

Fleet::Fleet(const Scenario &scenario, model::Redis &redis, model::Clock &clock)
    : scenario_(scenario),
      redis_(redis),
      clock_(clock),
      random_(~scenario.seed),
      lease_time_(rate_limit::lease_time(scenario.quota, scenario.lease)),
      longest_denial_(lease_time_.count() > 0 ? std::min(longest_denial, lease_time_)
                                              : longest_denial),
      plain_(model::charge_of(scenario.quota, scenario.aligned, redis_key)),
      leasing_(leasing_charge(scenario.quota.cost)),
      fetching_(leasing_charge(0)),
      promise_(scenario.quota, scenario.aligned) {
    std::uniform_int_distribution<int64_t> any_time(0, 1'000'000'000'000);
    std::uniform_real_distribution<double> any_drift(-900, 900);
    began_ = 1'700'000'000'000'000 + any_time(random_);
    for (size_t i = 0; i < scenario.hosts; ++i) {
        hosts_.emplace_back(Time(any_time(random_)), any_drift(random_));
    }
}

Charge Fleet::leasing_charge(uint64_t cost) const {
    rate_limit::Quota quota = scenario_.quota;
    quota.cost = cost;
    return model::leasing_charge_of(quota, scenario_.aligned, redis_key, lease_time_, 0);
}

Outcome Fleet::run() {
    redis_.command({"FLUSHALL"});
    for (size_t host = 0; host < hosts_.size(); ++host) {
        plan_death(host);
    }
    const auto rule = model::model_of(scenario_.quota.algorithm, scenario_.aligned);
    RequestSource source(scenario_);
    for (auto next = source.next(); next.time < scenario_.length(); next = source.next()) {
        run_events(next.time);
        now_ = next.time;
        request(next.host);
        const int64_t at_redis = began_ + (now_ + scenario_.round_trip / 2).count();
        if (rule->fits(scenario_.quota, at_redis)) {
            rule->take(scenario_.quota, at_redis);
            ++outcome_.exact;
        }
    }
    run_events(Time::max());
    return outcome_;
}

void Fleet::run_events(Time end) {
    while (!events_.empty() && events_.top().time <= end) {
        const Event event = events_.top();
        events_.pop();
        now_ = event.time;
        happen(event);
    }
}

void Fleet::plan(Event event) {
    event.number = ++last_event_;
    events_.push(event);
}

void Fleet::happen(const Event &event) {
    switch (event.kind) {
    case Event::Kind::at_redis:
        run_at_redis(event.index);
        break;
    case Event::Kind::answer:
    case Event::Kind::timeout: {
        const Call call = calls_[event.index];
        free_calls_.push_back(event.index);
        on_answer(call, event.kind == Event::Kind::answer);
        break;
    }
    case Event::Kind::lease_end:
        on_lease_end(event);
        break;
    case Event::Kind::death:
        die(event.index);
        break;
    }
}

Host &Fleet::wake(size_t host) {
    hosts_[host].set_time(now_);
    return hosts_[host];
}

/// As ask() of phase_handlers.cpp and take_units() of leases.cpp do it.
void Fleet::request(size_t index) {
    Host &host = wake(index);
    const microseconds now = Host::now();
    ++outcome_.requests;
    if (host.denials().may_hold(now) && host.denials().find(identity, now, longest_denial_)) {
        return;
    }
    Call call{.kind = Call::Kind::check, .charge = plain_, .claim = {}, .host = index};
    if (lease_time_.count() > 0) {
        const LeaseBook::Account account = *host.book().find_or_make(identity, now);
        const auto step = rate_limit::take_step(
            account, 1,
            {.lease_time = lease_time_, .round_trip = host.round_trip(), .timeout = timeout}, now,
            host);
        if (step.wanted > 0) {
            return_ended(index, account);
            call.kind = step.taken ? Call::Kind::fetch : Call::Kind::check;
            call.charge = step.taken ? fetching_ : leasing_;
            call.charge.wanted = step.wanted;
            call.claim = step.claim;
        }
        if (step.taken) {
            ++outcome_.granted;
            ++outcome_.by_lease;
            count_granted(1, window_ends_[step.taken->receipt]);
            if (step.wanted == 0) {
                return;
            }
        }
    }
    send(call);
}

void Fleet::send(Call call) {
    Host &host = hosts_[call.host];
    call.asked = Host::now();
    call.life = host.life;
    ++outcome_.calls[static_cast<size_t>(call.kind)];
    size_t index = calls_.size();
    if (free_calls_.empty()) {
        calls_.push_back(call);
    } else {
        index = free_calls_.back();
        free_calls_.pop_back();
        calls_[index] = call;
    }
    if (is_lost()) {
        plan({.time = now_ + timeout, .kind = Event::Kind::timeout, .index = index});
    } else {
        host.last_at_redis = std::max(host.last_at_redis, now_ + one_way());
        plan({.time = host.last_at_redis, .kind = Event::Kind::at_redis, .index = index});
    }
}

/// A part of the calls is lost, and as many answers are.
bool Fleet::is_lost() {
    return scenario_.faults.lost > 0 &&
           std::bernoulli_distribution(scenario_.faults.lost / 2)(random_);
}

Time Fleet::one_way() {
    const int64_t usual = scenario_.round_trip.count() / 2;
    return Time(std::uniform_int_distribution<int64_t>(usual * 3 / 4, usual * 5 / 4)(random_));
}

void Fleet::run_at_redis(size_t index) {
    Call &call = calls_[index];
    clock_.set(redis_now());
    if (call.kind == Call::Kind::give_back) {
        require_none(redis_.refund(call.charge));
        free_calls_.push_back(index);
        return;
    }
    require_none(redis_.check({&call.charge, 1}));
    outcome_.leased += call.charge.leased.units;
    if (call.charge.leased.units > 0) {
        window_ends_[call.charge.leased.receipt] =
            redis_now() + call.charge.of_counter.reset.count();
    }
    if (call.kind == Call::Kind::check && call.charge.is_charged) {
        count_granted(1, redis_now() + call.charge.verdict.reset.count());
    }
    if (is_lost()) {
        plan({.time = now_ + timeout, .kind = Event::Kind::timeout, .index = index});
    } else {
        Host &host = hosts_[call.host];
        host.last_answer = std::max(host.last_answer, now_ + one_way());
        plan({.time = host.last_answer, .kind = Event::Kind::answer, .index = index});
    }
}

void Fleet::count_granted(uint64_t units, int64_t window_end) {
    if (!promise_.take(units, redis_now(), window_end) && !outcome_.too_much_at) {
        outcome_.too_much_at = now_;
    }
}

/// As BackendCheck and BackgroundFetch do it.
void Fleet::on_answer(const Call &call, bool is_answered) {
    const bool is_check = call.kind == Call::Kind::check;
    if (call.life != hosts_[call.host].life || call.kind == Call::Kind::give_back) {
        outcome_.unanswered += is_check ? 1 : 0;
        return;
    }
    Host &host = wake(call.host);
    host.check_took(Host::now() - call.asked);
    if (call.charge.wanted > 0) {
        keep_lease(call, is_answered);
    }
    if (!is_check) {
        return;
    }
    if (!is_answered) {
        ++outcome_.unanswered;
    } else if (call.charge.is_charged) {
        ++outcome_.granted;
    } else {
        const rate_limit::Verdict &denied = call.charge.verdict;
        host.denials().add(identity, denied, denied.retry_after,
                           {.asked = call.asked, .answered = Host::now()});
    }
}

/// As keep_leases() of leases.cpp does it.
void Fleet::keep_lease(const Call &call, bool is_answered) {
    const rate_limit::LeasedUnits leased =
        is_answered ? call.charge.leased : rate_limit::LeasedUnits{};
    Host &host = hosts_[call.host];
    const auto account = host.book().find(identity);
    if (account) {
        return_ended(call.host, *account);
    }
    const bool is_kept =
        account && rate_limit::finish_fetch(*account, call.claim, leased,
                                            call.charge.last_verdict(), Host::now());
    if (leased.units == 0) {
        return;
    }
    if (is_kept) {
        plan_lease_end(call.host, rate_limit::end_of_lease(call.claim, leased));
    } else {
        return_units(call.host, leased.units, leased.receipt);
    }
}

/// nginx's timers count milliseconds.
void Fleet::plan_lease_end(size_t host, microseconds end) {
    const auto wait = std::chrono::ceil<milliseconds>(hosts_[host].time_when(end) - now_);
    plan({.time = now_ + wait,
          .kind = Event::Kind::lease_end,
          .index = host,
          .life = hosts_[host].life,
          .lease_end = end});
}

/// As HeldLease does it.
void Fleet::on_lease_end(const Event &event) {
    Host &host = wake(event.index);
    if (event.life != host.life) {
        return;
    }
    if (Host::now() < event.lease_end) {
        plan_lease_end(event.index, event.lease_end);
    } else if (const auto account = host.book().find(identity)) {
        return_ended(event.index, *account);
    }
}

void Fleet::return_ended(size_t host, const LeaseBook::Account &account) {
    while (const auto rest = account.take_ended(Host::now())) {
        return_units(host, rest->units, rest->receipt);
    }
}

void Fleet::return_units(size_t host, uint64_t units, int64_t receipt) {
    Call call{.kind = Call::Kind::give_back, .charge = plain_, .claim = {}, .host = host};
    call.charge.quota.cost = units;
    call.charge.receipt = receipt;
    call.charge.is_charged = true;
    outcome_.returned += units;
    send(call);
}

void Fleet::plan_death(size_t host) {
    const double mean = static_cast<double>(scenario_.faults.mean_life.count());
    if (mean == 0) {
        return;
    }
    const double life = std::exponential_distribution<double>(1 / mean)(random_);
    const Time time = now_ + Time(static_cast<int64_t>(life));
    if (time < scenario_.length()) {
        plan({.time = time, .kind = Event::Kind::death, .index = host});
    }
}

/// Every other time only the worker dies, and shared memory stays.
void Fleet::die(size_t index) {
    Host &host = hosts_[index];
    ++host.life;
    if (std::bernoulli_distribution(0.5)(random_)) {
        host.forget();
    }
    plan_death(index);
}

} // namespace simulation
