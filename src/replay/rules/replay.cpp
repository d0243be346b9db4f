#include "replay/rules/replay.hpp"

#include "rate_limit/rule/shards.hpp"
#include "rate_limit/text/text.hpp"
#include "redis_client/script/answer.hpp"
#include "redis_client/script/arguments.hpp"

#include <algorithm>

namespace replay {

namespace {

using rate_limit::Phase;
using rate_limit::Quota;
using std::chrono::microseconds;

/// Whether a leaky bucket alone would have held back a request that it grants: nothing was charged,
/// because another rule rejects the request.
bool would_delay(const redis_client::Charge &charge) {
    __extension__ using Wide = __int128;
    const Quota &quota = charge.quota;
    if (charge.is_charged || !traits_of(quota.algorithm).takes_delay || quota.cost == 0) {
        return false;
    }
    const rate_limit::Interval interval(quota);
    const Wide ahead = Wide{charge.verdict.reset.count()} * interval.parts;
    const Wide units = Wide{quota.cost} + quota.to_keep_free() - 1 - quota.delay;
    return ahead + units * static_cast<Wide>(interval.length) > 0;
}

Outcome outcome_of(const redis_client::Charge &charge) {
    if (charge.verdict.decision != rate_limit::Decision::granted) {
        return Outcome::rejected;
    }
    return charge.verdict.delay.count() > 0 || would_delay(charge) ? Outcome::delayed
                                                                   : Outcome::passed;
}

} // namespace

Replay::Replay(const RulesFile &rules, const Variables &variables, Redis &redis)
    : rules_(rules), variables_(variables), redis_(redis) {
    for (const auto &rule : rules.rules) {
        if (rule->counted_as == tallies_.size()) {
            tallies_.push_back(std::make_unique<RuleTally>(
                microseconds(rule->quota().window).count(), state_us(rule->quota())));
        }
    }
}

std::optional<Replay::Decision> Replay::decide(const Request &request, int64_t decided_us,
                                               int64_t ended_us) {
    Decision decision;
    if (!end_requests(decided_us)) {
        return std::nullopt;
    }
    decision.is_no_request = variables_.request_fields().has_path() && !request.path();
    if (rules_.server.answers_at_once || decision.is_no_request) {
        return decision;
    }
    const Level &level = request.path() ? rules_.server.serving(*request.path()) : rules_.server;
    if (level.answers_at_once) {
        return decision;
    }
    charges_.clear();
    for (const Phase phase : rate_limit::all_phases) {
        if (!decision.is_rejected &&
            !decide_phase(request, level, phase, decided_us, ended_us, decision)) {
            return std::nullopt;
        }
    }
    plan_ends(request, decision, ended_us);
    return decision;
}

/// Returns false if Redis failed.
bool Replay::decide_phase(const Request &request, const Level &level, Phase phase,
                          int64_t decided_us, int64_t ended_us, Decision &decision) {
    const size_t earlier = charges_.size();
    find(request, level, phase);
    decision.is_rejected = is_rejected_by_error_;
    decision.has_rules = decision.has_rules || !charges_.empty();
    const size_t open = decide_without_counters(earlier, decided_us, ended_us, decision);
    if (decision.is_rejected || open == charges_.size()) {
        return true; // the rules that are left are not asked, as in nginx
    }
    decision.is_of_both_phases = earlier > 0;
    const uint64_t chance = random_();
    for (size_t i = open; i < charges_.size(); ++i) {
        make_charge(i, chance);
    }
    if (!ask(std::span(charges_).subspan(open), decided_us)) {
        return false;
    }
    for (size_t i = open; i < charges_.size(); ++i) {
        const Applied &applied = *applied_[i];
        const rate_limit::Verdict &verdict = charges_[i].verdict;
        count(applied, outcome_of(charges_[i]), decided_us, ended_us);
        if (!applied.dry_run) {
            decision.is_rejected =
                decision.is_rejected || verdict.decision != rate_limit::Decision::granted;
            decision.delay = std::max(decision.delay, verdict.delay);
        }
    }
    return true;
}

/// Decides by those rules, from this one on, that need no counter, and moves them before the
/// others. Returns the first of the others.
size_t Replay::decide_without_counters(size_t first, int64_t decided_us, int64_t ended_us,
                                       Decision &decision) {
    const auto at = [this](size_t index) {
        return applied_.begin() + static_cast<std::ptrdiff_t>(index);
    };
    size_t open = first;
    for (size_t i = first; i < charges_.size(); ++i) {
        const Applied &applied = *applied_[i];
        if (rate_limit::verdict_without_counter(applied.quota)) { // a denial
            count(applied, Outcome::rejected, decided_us, ended_us);
            decision.is_rejected = decision.is_rejected || !applied.dry_run;
            std::rotate(at(open), at(i), at(i + 1));
            ++open;
        }
    }
    return open;
}

/// Finds the rules of the phase that apply to the request.
void Replay::find(const Request &request, const Level &level, Phase phase) {
    is_rejected_by_error_ = false;
    for (const Rule *rule : level.rules) {
        if (rule->phase != phase) {
            continue;
        }
        if (charges_.size() == applied_.size()) {
            applied_.push_back(std::make_unique<Applied>());
        }
        Applied &applied = *applied_[charges_.size()];
        applied.rule = rule;
        applied.dry_run = rule->dry_run || level.dry_run;
        switch (evaluate(request, applied)) {
        case Evaluated::applies:
            charges_.emplace_back();
            break;
        case Evaluated::invalid:
            tallies_[rule->counted_as]->count_invalid();
            is_rejected_by_error_ =
                is_rejected_by_error_ ||
                (!applied.dry_run && rule->zone->on_error == rate_limit::OnError::closed);
            break;
        case Evaluated::applies_not:
            break;
        }
    }
}

Replay::Evaluated Replay::evaluate(const Request &request, Applied &applied) {
    applied.key = applied.rule->zone->key.evaluate(variables_, request, buffer_);
    return applied.key.empty() ? Evaluated::applies_not : evaluate_numbers(request, applied);
}

/// As in the module, an empty variable exempts the request, whatever the others are.
Replay::Evaluated Replay::evaluate_numbers(const Request &request, Applied &applied) {
    const Rule &rule = *applied.rule;
    Quota &quota = applied.quota;
    quota = rule.quota();
    if (!rule.has_variables()) {
        return Evaluated::applies;
    }
    uint64_t burst = 0;
    const struct {
        const std::optional<CompiledText> &text;
        uint64_t largest;
        uint64_t &number;
    } numbers[] = {
        {rule.limit, rate_limit::largest_limit(quota.algorithm), quota.limit},
        {rule.burst, rate_limit::largest_number, burst},
        {rule.cost, rate_limit::largest_cost(quota.algorithm), quota.cost},
    };
    bool is_valid = true;
    for (const auto &[text, largest, number] : numbers) {
        if (!text) {
            continue;
        }
        const std::string_view value = text->evaluate(variables_, request, buffer_);
        if (value.empty()) {
            return Evaluated::applies_not;
        }
        const auto parsed = rate_limit::parse_whole_number(value, largest);
        is_valid = is_valid && parsed;
        number = parsed.value_or(0);
    }
    rate_limit::keep_cost_free(quota, rule.final_cost.has_value());
    if (rule.burst) {
        quota.burst = burst;
    }
    return is_valid && quota.refill() <= rate_limit::longest_refill ? Evaluated::applies
                                                                    : Evaluated::invalid;
}

void Replay::make_charge(size_t index, uint64_t chance) {
    Applied &applied = *applied_[index];
    Charge &charge = charges_[index];
    const Rule &rule = *applied.rule;
    charge.dry_run = applied.dry_run;
    charge.block = rule.rule.block_of(applied.dry_run);
    charge.quota = applied.quota;
    uint64_t shard = 0;
    if (rule.rule.shards > 1) {
        const uint64_t shards = rate_limit::shards_in_use(applied.quota, rule.rule.shards);
        shard = rate_limit::choose_shard(applied.quota, shards, chance);
        charge.quota = rate_limit::share_of(applied.quota, shards, shard);
        charge.redis_key = rule.key_format->write(applied.key, shard, applied.redis_key_buffer);
    } else {
        charge.redis_key = rule.key_format->write(applied.key, applied.redis_key_buffer);
    }
    if (rate_limit::holds_permits(applied.quota.algorithm)) {
        charge.quota.window = lasting_permit;
        rate_limit::TextWriter name(applied.permit.name_bytes);
        name << permits_made_++ << " " << charge.quota.cost;
        applied.permit.name = {applied.permit.name_bytes.data(), name.size()};
        applied.permit.redis_key = charge.redis_key;
        charge.permit = &applied.permit;
    }
    if (rule.has_variables()) {
        applied.own_arguments = redis_client::check_arguments(charge.quota, rule.rule.aligned);
        charge.arguments = &applied.own_arguments;
    } else {
        charge.arguments = &rule.arguments[shard];
    }
}

redis_client::Sending Replay::sending_of(const redis_client::Script &script) {
    return sent_.insert(&script).second ? redis_client::Sending::in_full
                                        : redis_client::Sending::by_name;
}

/// Runs the command that was written. Returns nothing if it failed.
std::optional<std::string_view> Replay::run(int64_t now_us) {
    const Answer answer = redis_.run(command_.bytes(), now_us);
    command_.clear();
    if (answer.type == Answer::Type::error) {
        error_ = answer.text;
        return std::nullopt;
    }
    return answer.text;
}

/// Asks for the charges of rules of one phase. Returns false if Redis failed.
bool Replay::ask(std::span<Charge> charges, int64_t now_us) {
    const redis_client::ScriptShape shape = redis_client::shape_of(charges);
    scripts_.add(shape);
    redis_client::Command check;
    check.charges = charges;
    const redis_client::Script &script = scripts_.check(shape);
    redis_client::write_checks(command_, script, sending_of(script), check);
    const auto answer = run(now_us);
    if (!answer) {
        return false;
    }
    if (answer->size() != redis_client::answer_size(charges) ||
        redis_client::read_answer(*answer, charges) != redis_client::AnswerState::good) {
        error_ = "a check was answered by something else";
        return false;
    }
    return true;
}

void Replay::count(const Applied &applied, Outcome outcome, int64_t decided_us, int64_t ended_us) {
    RuleTally &tally = *tallies_[applied.rule->counted_as];
    if (outcome == Outcome::rejected && !applied.dry_run) {
        tally.note_enforced();
    }
    tally.count(applied.key, {.time_us = decided_us,
                              .outcome = outcome,
                              .cost = applied.quota.cost,
                              .duration_us = ended_us - decided_us});
}

std::optional<uint64_t> Replay::final_cost_of(const Request &request, const Applied &applied) {
    const std::string_view text = applied.rule->final_cost->evaluate(variables_, request, buffer_);
    if (text.empty()) {
        return std::nullopt;
    }
    const auto cost =
        rate_limit::parse_saturated_number(text, rate_limit::largest_cost(applied.quota.algorithm));
    if (!cost) {
        tallies_[applied.rule->counted_as]->count_invalid();
    }
    return cost;
}

/// Plans what Redis is told when the request ends. A request that was rejected settles nothing, but
/// permits that it got in an earlier phase are released.
void Replay::plan_ends(const Request &request, const Decision &decision, int64_t ended_us) {
    for (size_t i = 0; i < charges_.size(); ++i) {
        const Charge &charge = charges_[i];
        const Rule &rule = *applied_[i]->rule;
        const bool settles = rule.final_cost && !decision.is_rejected;
        if (!charge.is_charged || (charge.permit == nullptr && !settles)) {
            continue;
        }
        AtEnd end{.time_us = ended_us,
                  .number = ends_made_++,
                  .redis_key = std::string(charge.redis_key),
                  .permit = {},
                  .quota = charge.quota,
                  .aligned = rule.rule.aligned,
                  .receipt = charge.receipt};
        if (charge.permit != nullptr) {
            end.permit = charge.permit->name;
            ends_.push(std::move(end));
        } else {
            plan_settlement(request, *applied_[i], std::move(end));
        }
    }
}

void Replay::plan_settlement(const Request &request, const Applied &applied, AtEnd end) {
    const auto cost = final_cost_of(request, applied);
    const uint64_t reserved = end.quota.reserves_nothing ? 0 : end.quota.cost;
    if (!cost || *cost == reserved) {
        return;
    }
    end.kind = *cost > reserved ? redis_client::SettlementKind::debt
                                : redis_client::SettlementKind::refund;
    end.quota.cost = *cost > reserved ? *cost - reserved : reserved - *cost;
    end.quota.reserves_nothing = false;
    ends_.push(std::move(end));
}

/// Returns false if Redis failed.
bool Replay::end_requests(int64_t until_us) {
    while (!ends_.empty() && ends_.top().time_us <= until_us) {
        if (!end_request(ends_.top())) {
            return false;
        }
        ends_.pop();
    }
    return true;
}

bool Replay::end_request(const AtEnd &end) {
    if (!end.permit.empty()) {
        redis_client::Permit permit;
        permit.redis_key = end.redis_key;
        permit.name = end.permit;
        const redis_client::Script &script = scripts_.release();
        redis_client::write_release(command_, script, sending_of(script), permit);
        return run(end.time_us).has_value();
    }
    redis_client::Settlement settlement;
    settlement.redis_key = end.redis_key;
    settlement.arguments = end.kind == redis_client::SettlementKind::debt
                               ? redis_client::debt_arguments(end.quota, end.aligned)
                               : redis_client::refund_arguments(end.quota, end.receipt);
    redis_client::SettlementList list;
    list.push_back(settlement);
    const redis_client::Script &script = scripts_.settlement(end.quota.algorithm, end.kind);
    redis_client::write_settlements(command_, script, sending_of(script), list);
    return run(end.time_us).has_value();
}

} // namespace replay
