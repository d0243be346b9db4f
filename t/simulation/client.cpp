#include "simulation/client.hpp"

#include "redis_client/wire/hash_slot.hpp"

#include <algorithm>

namespace simulation {

using limiter::Step;

Client::Client(Simulation &simulation, SimulatedHost &host, SimulatedWorker &worker,
               std::string key, Callbacks &callbacks)
    : simulation_(simulation),
      host_(host),
      worker_(worker),
      callbacks_(callbacks),
      key_(std::move(key)),
      final_cost_(std::to_string(simulation.chance.below(6))) {}

void Client::begin() {
    began_ = simulation_.timeline.now();
    limits_ = limiter::LimitedRequest::create(worker_.limiter(), *this);
    act(limits_->apply({host_.level(), false}, rate_limit::Phase::access));
}

void Client::leave_at(Time when) {
    later(when, [this] { leave(); });
}

void Client::leave() {
    if (!has_begun()) {
        return; // its worker stands still
    }
    if (!is_decided_) {
        ++simulation_.happened.left;
        simulation_.write("leaves " + key_);
        if (is_waiting_) {
            limits_->abandon();
            callbacks_.on_abandon(worker_);
        }
    }
    end();
}

void Client::die() {
    is_over_ = true;
    alive_.reset();
    finish_grants(/*settles=*/false);
}

void Client::on_answered() {
    if (simulation_.has_faults && simulation_.chance.one_in(100)) { // in the same turn
        leave_at(simulation_.timeline.now());
    }
    later(simulation_.timeline.now(), [this] {
        is_waiting_ = false;
        const Time waited = simulation_.timeline.now() - began_;
        if (!worker_was_stopped_) {
            simulation_.auditor.wait(waited.count(), Time{SimulatedHost::timeout}.count() + 5'000);
        }
        act(limits_->take_answers());
    });
}

/// Nothing happens to a request that is over.
void Client::later(Time when, std::function<void()> what) {
    worker_.later(when, [alive = std::weak_ptr<int>(alive_), what = std::move(what)] {
        if (!alive.expired()) {
            what();
        }
    });
}

void Client::act(const Step &step) {
    if (step.kind == Step::Kind::wait) {
        is_waiting_ = true;
        return;
    }
    if (needs_verdict_ && lacks_verdict()) {
        simulation_.auditor.misbehave("no verdict though nothing is wrong");
    }
    switch (step.kind) {
    case Step::Kind::hold_back:
        note_grants();
        later(simulation_.timeline.now() + step.decision.delaying->delay(), [this] { serve(); });
        return;
    case Step::Kind::pass:
        note_grants();
        serve();
        return;
    case Step::Kind::wait:
    case Step::Kind::reject:
    case Step::Kind::no_memory:
        break;
    }
    is_decided_ = true;
    note_denials();
    ++simulation_.happened.denied;
    simulation_.write("rejected " + key_);
    end();
}

void Client::serve() {
    is_decided_ = true;
    callbacks_.on_pass();
    simulation_.write("passes " + key_);
    later(simulation_.timeline.now() + Time{simulation_.chance.between(0, 200'000)},
          [this] { end(); });
}

size_t Client::number_of(const limiter::AppliedRule &applied) const {
    return static_cast<size_t>(std::ranges::find(host_.level(), applied.rule) -
                               host_.level().begin());
}

/// Whether Redis has decided what it was to decide.
bool Client::lacks_verdict() const {
    bool is_denied = false;
    bool is_lacking = false;
    for (const limiter::AppliedRule *one = limits_->rules().first(); one != nullptr;
         one = one->next) {
        const bool is_local = one->is_decided_by(limiter::RuleResult::Source::local);
        is_denied = is_denied || (one->denies() && !is_local);
        is_lacking = is_lacking || is_local || one->verdict() == nullptr;
    }
    return is_lacking && !is_denied; // a denial that is known leaves the other rules open
}

/// Finds out when which Redis has decided, since the request has begun.
bool Client::find_decision(const limiter::AppliedRule &rule, uint16_t hash_slot,
                           Decision &decision) const {
    const auto found = simulation_.topology->decision(hash_slot, rule.result.decided(), began_);
    decision = found.value_or(decision);
    return found.has_value();
}

void Client::note_grants() {
    for (const limiter::AppliedRule *one = limits_->rules().first(); one != nullptr;
         one = one->next) {
        if (one->verdict() == nullptr) {
            ++simulation_.happened.without_verdict;
            continue;
        }
        const bool is_leased = one->is_decided_by(limiter::RuleResult::Source::lease);
        if (!is_leased && !one->is_decided_by(limiter::RuleResult::Source::redis)) {
            continue; // by this host alone
        }
        ++(is_leased ? simulation_.happened.leased : simulation_.happened.granted);
        const uint16_t hash_slot = redis_client::hash_slot(one->charge->redis_key);
        Decision decision{simulation_.timeline.now()};
        if (is_leased) {
            decision.when = host_.time_of_boot_clock(one->result.decided());
            decision.history = simulation_.topology->history_of(hash_slot);
        } else if (!find_decision(*one, hash_slot, decision)) {
            simulation_.auditor.misbehave("a verdict that Redis has not given to this request");
        }
        grants_.emplace_back(number_of(*one),
                             Grant{.time_us = decision.when.count(),
                                   .cost = one->quota.cost,
                                   .by = is_leased ? GrantedBy::lease : GrantedBy::redis,
                                   .history = decision.history});
    }
}

/// The auditor can judge denials only where all that was charged is known.
void Client::note_denials() {
    if (simulation_.has_faults || !simulation_.auditor.knows_charges()) {
        return;
    }
    for (const limiter::AppliedRule *one = limits_->rules().first(); one != nullptr;
         one = one->next) {
        if (one->denies() && one->is_decided_by(limiter::RuleResult::Source::redis)) {
            Decision decision{simulation_.timeline.now()};
            find_decision(*one, redis_client::hash_slot(one->charge->redis_key), decision);
            simulation_.auditor.deny(number_of(*one), key_, decision.when.count(), one->quota.cost);
        }
    }
}

void Client::finish_grants(bool settles) {
    for (auto &[rule, grant] : grants_) {
        grant.ended_us = simulation_.timeline.now().count();
        if (settles && simulation_.auditor.rule(rule).settles) {
            grant.final_cost = std::stoul(final_cost_);
            ++(grant.returned() > 0 ? simulation_.happened.returns : simulation_.happened.debts);
        }
        simulation_.auditor.grant(rule, key_, grant);
    }
    grants_.clear();
}

void Client::end() {
    finish_grants(/*settles=*/true);
    is_over_ = true;
    alive_.reset();
    limits_->settle();
    limits_->end();
}

} // namespace simulation
