#include "simulation/client.hpp"

#include "simulation/looks.hpp"
#include "simulation/redis/slot_of_key.hpp"

#include <algorithm>

namespace simulation {

using limiter::Step;

Client::Numbers Client::draw_numbers(const Chance &chance) {
    switch (Chance(chance).fork().below(12)) { // changes no other draw
    case 0:
        return Numbers::none;
    case 1:
        return Numbers::wrong;
    default:
        return Numbers::right;
    }
}

Client::Client(Simulation &simulation, SimulatedHost &host, SimulatedWorker &worker,
               std::string key, Callbacks &callbacks)
    : simulation_(simulation),
      host_(host),
      worker_(worker),
      callbacks_(callbacks),
      key_(std::move(key)),
      cost_(std::to_string(simulation.chance.below(5))),
      final_cost_(std::to_string(simulation.chance.below(6))),
      numbers_(draw_numbers(simulation.chance)),
      is_elsewhere_(Chance(simulation.chance).fork().fork().one_in(2)) {
    if (!simulation.has_debts) {
        final_cost_ = std::min({final_cost_, cost_, std::string("1")});
    }
}

std::optional<std::string_view> Client::text(const limiter::Rule &rule, limiter::RuleText which) {
    using limiter::RuleText;
    if (which == RuleText::final_cost) {
        return final_cost_;
    }
    if (numbers_ != Numbers::right) {
        without_numbers_.push_back(&rule);
        return numbers_ == Numbers::none ? "" : "4294967296x";
    }
    if (which == RuleText::cost) {
        return cost_;
    }
    const AuditedRule &audited = simulation_.auditor.rule(worker_.configuration().number_of(rule));
    std::string &text = which == RuleText::limit ? limit_ : burst_;
    text = std::to_string(which == RuleText::limit ? audited.limit : audited.burst.value_or(0));
    return text;
}

const limiter::RuleList &Client::level() const {
    const HostConfiguration &configuration = worker_.configuration();
    return is_elsewhere_ && !configuration.rivals().empty() ? configuration.rivals()
                                                            : configuration.level();
}

void Client::begin() {
    began_ = simulation_.timeline.now();
    tries_again_ = simulation_.network.counts.try_again;
    simulation_.auditor.come(host_.number(), key_, began_.count());
    limits_ = limiter::LimitedRequest::create(worker_.limiter(), *this);
    apply(rate_limit::Phase::access);
}

void Client::apply(rate_limit::Phase phase) {
    phase_ = phase;
    applied_ = simulation_.timeline.now();
    act(limits_->apply({level(), false}, phase));
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
        note_unanswered();
        for_each_waiting([this](const limiter::AppliedRule &rule) {
            if (cost_of(rule) != std::stoul(final_cost_)) {
                simulation_.auditor.leave_undecided(number_of(rule), rule.charge->redis_key);
            }
        });
        if (is_waiting_) {
            limits_->abandon();
        }
    }
    end();
}

void Client::die() {
    note_unanswered();
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
        const Time waited = simulation_.timeline.now() - applied_;
        if (!worker_was_stopped_) {
            simulation_.auditor.wait(waited.count(),
                                     Time{HostConfiguration::timeout}.count() + 5'000);
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
    // While a hash slot moves, some of the keys of a check may have moved.
    const bool has_moved = tries_again_ != simulation_.network.counts.try_again;
    if (!has_moved && lacks_verdicts()) {
        simulation_.auditor.misbehave("no verdict though nothing is wrong");
    }
    judge_choice(step);
    switch (step.kind) {
    case Step::Kind::hold_back:
        pass(step.decision.delaying->delay());
        return;
    case Step::Kind::pass:
        pass(Time{0});
        return;
    case Step::Kind::reject:
        judge_errors(/*passes=*/false);
        note_numbers(/*passes=*/false);
        note_top_key();
        note_denials();
        finish_grants(/*settles=*/false); // rules of the other phase stay charged
        break;
    case Step::Kind::no_memory: // no rule has decided, and the request ends
        if (!simulation_.has_faults) {
            simulation_.auditor.misbehave("no memory, though there is enough");
        }
        break;
    case Step::Kind::wait:
        break;
    }
    is_decided_ = true;
    ++simulation_.happened.denied;
    simulation_.write("rejected " + key_);
    end();
}

/// All rules of the phase let the request go on, after a delay.
void Client::pass(Time delay) {
    judge_errors(/*passes=*/true);
    note_numbers(/*passes=*/true);
    const bool is_last =
        phase_ == rate_limit::Phase::late || !worker_.configuration().has_precontent();
    note_grants();
    later(simulation_.timeline.now() + delay, [this, is_last] {
        if (is_last) {
            serve();
        } else {
            apply(rate_limit::Phase::late);
        }
    });
}

void Client::serve() {
    is_decided_ = true;
    simulation_.write("passes " + key_);
    // Some last longer than a permit, or than the numbers by which they were granted.
    const int64_t longest_us = simulation_.chance.one_in(20) ? 4'000'000 : 200'000;
    later(simulation_.timeline.now() + Time{simulation_.chance.between(0, longest_us)},
          [this] { end(); });
}

/// Tells the auditor by which numbers the phase has decided. A rule that was not applied to a
/// request that passes has exempted its client. A request that is known to be denied meets the
/// rules alone that deny it.
void Client::note_numbers(bool passes) {
    for (const limiter::Rule *rule : level()) {
        if (rule->phase != phase_) {
            continue;
        }
        const limiter::AppliedRule *applied = limits_->rules().first();
        while (applied != nullptr && applied->rule != rule) {
            applied = applied->next;
        }
        const bool is_banned = applied != nullptr && applied->ban; // whatever the numbers
        if (lacks_numbers(*rule) && !is_banned) {
            judge_numbers(*rule, applied);
        } else if (applied != nullptr || passes) {
            note_numbers(simulation_.auditor.rule(worker_.configuration().number_of(*rule)),
                         applied, passes);
        }
    }
}

/// The request has told the rule nothing, which exempts it, or what is no number, which is counted.
void Client::judge_numbers(const limiter::Rule &rule, const limiter::AppliedRule *applied) {
    if (applied == nullptr && numbers_ == Numbers::none) {
        return;
    }
    const AuditedRule &audited = simulation_.auditor.rule(worker_.configuration().number_of(rule));
    const bool rejects = rule.zone->on_error == rate_limit::OnError::closed && !audited.is_dry_run;
    const bool is_as_promised =
        numbers_ == Numbers::wrong && (applied != nullptr ? !is_valid(*applied) : !rejects);
    if (!is_as_promised) {
        simulation_.auditor.misbehave("a rule is applied without numbers, or with wrong ones");
    }
    callbacks_.on_counted(audited.name, "invalid");
}

void Client::note_numbers(const AuditedRule &rule, const limiter::AppliedRule *applied,
                          bool passes) {
    Obeyed obeyed{
        .key = key_, .rule = &rule, .time_us = applied_.count(), .action = Setting::Action::exempt};
    if (applied != nullptr) {
        note_outcome(rule, *applied, passes);
        obeyed.action = applied->ban ? Setting::Action::ban : Setting::Action::numbers;
        obeyed.limit = applied->quota.limit;
        obeyed.capacity = applied->quota.capacity();
    }
    simulation_.auditor.overrides.obey(obeyed);
}

/// Tells as what the rule's metrics must have counted the request, by SPEC section 7.
void Client::note_outcome(const AuditedRule &rule, const limiter::AppliedRule &applied,
                          bool passes) {
    using Source = limiter::RuleResult::Source;
    const bool is_ban = applied.ban.has_value();
    if (is_ban && !rule.is_dry_run) {
        callbacks_.on_counted(rule.name, "rejected_by_override");
    }
    if (applied.is_decided_by(Source::deny_cache)) {
        callbacks_.on_counted(rule.name, "rejected_by_deny_cache");
    }
    if (passes && applied.is_decided_by(Source::lease)) {
        callbacks_.on_counted(rule.name, "lease_requests");
    }
    const std::string prefix = rule.is_dry_run                        ? "dry_run_"
                               : applied.is_decided_by(Source::local) ? "local_"
                                                                      : "";
    if (!is_ban && applied.verdict() == nullptr) {
        const bool is_closed = applied.rule->zone->on_error == rate_limit::OnError::closed;
        callbacks_.on_counted(rule.name,
                              is_closed && !rule.is_dry_run ? "error_closed" : "error_open");
    } else if (is_ban || applied.denies()) {
        callbacks_.on_counted(rule.name, prefix + "rejected");
    } else if (applied.charge->quota.cost > 0 && !passes) {
        callbacks_.on_counted(rule.name, "uncharged");
    } else if (applied.charge->quota.cost > 0 && applied.verdict()->delay.count() > 0) {
        callbacks_.on_counted(rule.name, prefix + "delayed");
    } else {
        callbacks_.on_counted(rule.name,
                              applied.is_decided_by(Source::local) ? "local_passed" : "passed");
    }
}

/// A rejected request counts once among the keys that are rejected most, however many rules deny.
void Client::note_top_key() {
    for (const limiter::AppliedRule *one = limits_->rules().first(); one != nullptr;
         one = one->next) {
        if (one->rule->phase == phase_ && one->denies() && !one->dry_run) {
            callbacks_.on_counted("key " + key_, "rejected");
            return;
        }
    }
}

/// Where there is no verdict the zone says what becomes of the request: `closed` rejects it, and no
/// other value does.
void Client::judge_errors(bool passes) const {
    bool is_denied = false;
    bool is_closed = false;
    for (const limiter::AppliedRule *one = limits_->rules().first(); one != nullptr;
         one = one->next) {
        if (one->rule->phase != phase_ || one->dry_run) {
            continue;
        }
        is_denied = is_denied || one->denies() || one->ban;
        is_closed = is_closed || (one->verdict() == nullptr && !one->ban &&
                                  one->rule->zone->on_error == rate_limit::OnError::closed);
    }
    if (passes && is_closed) {
        simulation_.auditor.misbehave("passes without a verdict, though the zone is closed");
    }
    if (!passes && !is_denied && !is_closed) {
        simulation_.auditor.misbehave("rejected, though no rule denies");
    }
}

/// What a client is told is of the rule with the longest wait that denies, and a request is held
/// back for the longest delay.
void Client::judge_choice(const Step &step) const {
    const auto wait_of = [](const rate_limit::Verdict &verdict) {
        return verdict.decision == rate_limit::Decision::never ? Time::max() : verdict.retry_after;
    };
    const limiter::AppliedRule *told = step.decision.denying;
    const Time delay =
        step.kind == Step::Kind::hold_back ? step.decision.delaying->delay() : Time{0};
    for (const limiter::AppliedRule *one = limits_->rules().first(); one != nullptr;
         one = one->next) {
        const rate_limit::Verdict *verdict = one->verdict();
        if (one->rule->phase != phase_ || one->dry_run || one->ban || verdict == nullptr) {
            continue;
        }
        if (step.kind == Step::Kind::reject && one->denies() &&
            (told == nullptr || (!told->ban && wait_of(*verdict) > wait_of(*told->verdict())))) {
            simulation_.auditor.misbehave("rejected by a rule that is not the tightest one");
        }
        if (step.kind != Step::Kind::reject && verdict->delay > delay) {
            simulation_.auditor.misbehave("not held back for as long as a rule says");
        }
    }
}

/// Whether Redis has not decided what it was to decide.
bool Client::lacks_verdicts() const {
    bool is_denied = false;
    bool is_lacking = false;
    bool has_one = false;
    for (const limiter::AppliedRule *one = limits_->rules().first(); one != nullptr;
         one = one->next) {
        const bool is_local = one->is_decided_by(limiter::RuleResult::Source::local);
        is_denied = is_denied || (one->denies() && !is_local);
        const bool lacks_this = is_local || (one->verdict() == nullptr && is_valid(*one));
        is_lacking = is_lacking || lacks_this;
        has_one = has_one || !lacks_this;
    }
    if (host_.is_years_off()) {
        return false; // it knows no window of Redis's clock
    }
    const bool suffices = needed_ == Needed::none || (needed_ == Needed::one && has_one);
    return is_lacking && !suffices && !is_denied; // a denial leaves the other rules open
}

/// Returns when and on which data it was decided. What Redis has decided, it has since the request
/// has begun.
Decision Client::decision_of(const limiter::AppliedRule &rule) {
    const Topology &topology = *simulation_.topology;
    const uint16_t hash_slot = slot_of_key(rule.charge->redis_key);
    const Time decided = rule.result.decided();
    if (rule.is_decided_by(limiter::RuleResult::Source::redis)) {
        worker_.note_verdict();
        const auto found = topology.decision(rule.charge->redis_key, decided, began_);
        if (!found) {
            simulation_.auditor.misbehave("a verdict that Redis has not given to this request");
        }
        return found.value_or(Decision{.when = simulation_.timeline.now()});
    }
    const SimulatedRedis &redis = topology.redis_of(hash_slot);
    const Time when = host_.time_of_boot_clock(decided);
    return {.when = when,
            .clock = when + redis.ahead(),
            .history = redis.histories().at(hash_slot, simulation_.timeline.now())};
}

void Client::note_grants() {
    for (const limiter::AppliedRule *one = limits_->rules().first(); one != nullptr;
         one = one->next) {
        if (one->rule->phase != phase_ || !is_valid(*one)) {
            continue;
        }
        if (one->verdict() == nullptr) {
            ++simulation_.happened.without_verdict;
            note_uncharged(*one);
        } else if (!one->denies()) {
            note_grant(*one);
        } else {
            note_uncharged(*one); // what a dry run denies passes, too
        }
    }
}

/// Redis has seen the numbers of a check that has charged nothing, and may have seen those of one
/// whose answer did not come.
void Client::note_uncharged(const limiter::AppliedRule &rule) {
    using Source = limiter::RuleResult::Source;
    const bool is_answered = rule.is_decided_by(Source::redis);
    const bool may_be_seen = !rule.ban && rule.verdict() == nullptr;
    if (is_answered || may_be_seen || rule.is_decided_by(Source::local)) {
        const Time when = is_answered ? decision_of(rule).when : simulation_.timeline.now();
        simulation_.auditor.check_in_vain(number_of(rule), key_,
                                          {.time_us = when.count(),
                                           .limit = rule.quota.limit,
                                           .capacity = rule.quota.capacity(),
                                           .is_answered = is_answered,
                                           .host = host_.number()});
    }
}

/// The client has left, or its worker has died, while Redis may have been asked.
void Client::note_unanswered() {
    for_each_waiting([this](const limiter::AppliedRule &rule) { note_uncharged(rule); });
}

template <typename Use>
void Client::for_each_waiting(const Use &use) const {
    if (is_waiting_) {
        std::ranges::for_each(limits_->rules().asked(), use);
    }
}

GrantedBy Client::granted_by(const limiter::AppliedRule &rule) {
    using Source = limiter::RuleResult::Source;
    if (rule.is_decided_by(Source::lease)) {
        return GrantedBy::lease;
    }
    return rule.is_decided_by(Source::redis) ? GrantedBy::redis : GrantedBy::host_alone;
}

uint64_t Client::cost_of(const limiter::AppliedRule &rule) const {
    return simulation_.auditor.rule(number_of(rule)).has_own_costs ? std::stoul(cost_)
                                                                   : rule.quota.cost;
}

void Client::note_grant(const limiter::AppliedRule &rule) {
    const GrantedBy by = granted_by(rule);
    const bool is_leased = by == GrantedBy::lease;
    if (by == GrantedBy::host_alone) {
        note_uncharged(rule);
    } else {
        ++(is_leased ? simulation_.happened.leased : simulation_.happened.granted);
    }
    const Decision decision = decision_of(rule);
    const AuditedRule &audited = simulation_.auditor.rule(number_of(rule));
    Grant grant{.time_us = decision.when.count(),
                .cost = cost_of(rule),
                .limit = rule.quota.limit,
                .capacity = rule.quota.capacity(),
                .by = by,
                .redis_ahead_us = (decision.clock - decision.when).count(),
                .history = decision.history,
                .host = host_.number()};
    if (by == GrantedBy::redis) {
        callbacks_.on_decision(worker_, number_of(rule), key_, rule);
        grant.told = told_of(rule.charge->verdict);
        if (grant.cost > 0) {
            worker_.note_write();
        }
    }
    // Shards have windows of their own, and what costs nothing begins none.
    if (audited.algorithm == "fixed_window" && audited.shards == 1 && by == GrantedBy::redis &&
        grant.cost > 0) {
        grant.window_ends_us = (decision.when + rule.charge->verdict.reset).count();
    }
    grants_.emplace_back(number_of(rule), grant);
}

/// Whether no other rule of the phase that denies the request lets it wait longer.
bool Client::has_longest_wait(const limiter::AppliedRule &rule) const {
    for (const limiter::AppliedRule *one = limits_->rules().first(); one != nullptr;
         one = one->next) {
        const rate_limit::Verdict *verdict = one->verdict();
        if (one->rule->phase == phase_ && !one->dry_run && one->denies() &&
            (verdict->decision == rate_limit::Decision::never ||
             verdict->retry_after > rule.verdict()->retry_after)) {
            return false;
        }
    }
    return true;
}

void Client::note_denials() {
    using Source = limiter::RuleResult::Source;
    for (const limiter::AppliedRule *one = limits_->rules().first(); one != nullptr;
         one = one->next) {
        if (one->rule->phase != phase_) {
            continue;
        }
        const bool is_by_redis = one->is_decided_by(Source::redis);
        if (!one->denies()) {
            note_uncharged(*one);
        }
        if (!one->denies() || (!is_by_redis && !one->is_decided_by(Source::deny_cache))) {
            continue;
        }
        if (is_by_redis) {
            callbacks_.on_decision(worker_, number_of(*one), key_, *one);
        }
        const Decision decision = decision_of(*one);
        const Time blocked_for = one->charge->blocked_for;
        const bool is_blocked = is_by_redis && blocked_for.count() > 0;
        simulation_.happened.blocked += is_blocked ? 1 : 0;
        simulation_.happened.denied_by_cache += is_by_redis ? 0 : 1;
        const Time until = decision.when + std::max(one->charge->verdict.retry_after, blocked_for);
        simulation_.auditor.deny(
            number_of(*one), key_,
            {.time_us = decision.when.count(),
             .cost = one->quota.cost,
             .limit = one->quota.limit,
             .capacity = one->quota.capacity(),
             .is_by_redis = is_by_redis,
             .blocked_until_us = is_blocked ? (decision.when + blocked_for).count() : 0,
             .until_us = until.count(),
             .asked_us = applied_.count(),
             .answered_us = simulation_.timeline.now().count(),
             .history = decision.history,
             .host = host_.number(),
             .told = told_of(one->charge->verdict),
             .has_longest_wait = has_longest_wait(*one)});
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
    worker_.end_request();
}

} // namespace simulation
