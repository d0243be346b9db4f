#include "replay/rules/replay.hpp"

#include "rate_limit/wide.hpp"

#include <algorithm>
#include <limits>

namespace replay {

namespace {

using limiter::AppliedRule;
using limiter::Step;

/// Whether a leaky bucket alone would have held back a request that it grants: nothing was charged,
/// because another rule rejects the request.
bool would_delay(const AppliedRule &applied) {
    const rate_limit::Quota &quota = applied.quota;
    if (applied.charge->is_charged || !traits_of(quota.algorithm).takes_delay || quota.cost == 0) {
        return false;
    }
    const rate_limit::Interval interval(quota);
    const rate_limit::Wide ahead =
        rate_limit::Wide{applied.charge->verdict.reset.count()} * interval.parts;
    const rate_limit::Wide units =
        rate_limit::Wide{quota.cost} + quota.to_keep_free() - 1 - quota.delay;
    return ahead + units * static_cast<rate_limit::Wide>(interval.length) > 0;
}

Outcome outcome_of(const AppliedRule &applied) {
    if (applied.denies()) {
        return Outcome::rejected;
    }
    return applied.delay().count() > 0 || would_delay(applied) ? Outcome::delayed : Outcome::passed;
}

const Rule &rule_of(const limiter::Rule &rule) {
    return static_cast<const Rule &>(rule);
}

/// Whether something is to be told to Redis when the request ends.
bool has_end(const limiter::LimitedRequest &limits) {
    for (const AppliedRule *one = limits.rules().first(); one != nullptr; one = one->next) {
        const bool settles = !limits.is_rejected() && one->is_charged && one->rule->may_settle;
        if (settles || one->charge->permit != nullptr) {
            return true;
        }
    }
    return false;
}

} // namespace

void Replay::ReplayedRequest::begin(const replay::Request &line) {
    line_ = &line;
    final_costs_.clear();
}

void Replay::ReplayedRequest::end_line(const Level &level) {
    for (const limiter::Rule *rule : level.rules) {
        if (rule->has_final_cost()) {
            const auto cost = text(*rule, limiter::RuleText::final_cost);
            final_costs_.emplace_back(rule, cost.value_or(std::string_view()));
        }
    }
    line_ = nullptr;
}

std::optional<std::string_view> Replay::ReplayedRequest::key(const limiter::Zone &zone) {
    return static_cast<const Zone &>(zone).key.evaluate(replay_.variables_, *line_,
                                                        buffers_.back());
}

std::optional<std::string_view> Replay::ReplayedRequest::text(const limiter::Rule &rule,
                                                              limiter::RuleText which) {
    if (line_ == nullptr) {
        const auto known = std::ranges::find(final_costs_, &rule,
                                             &std::pair<const limiter::Rule *, std::string>::first);
        return known != final_costs_.end() ? std::string_view(known->second) : std::string_view();
    }
    return rule_of(rule).text(which).evaluate(replay_.variables_, *line_,
                                              buffers_[static_cast<size_t>(which)]);
}

std::string_view Replay::ReplayedRequest::address() {
    return replay_.variables_.address(*line_, address_);
}

void Replay::ReplayedRequest::report(const limiter::InvalidNumber &invalid) {
    replay_.tallies_[rule_of(invalid.rule).counted_as]->count_invalid();
}

Replay::Replay(const RulesFile &rules, const Variables &variables, Redis &redis)
    : rules_(rules),
      variables_(variables),
      backends_([&](const redis_client::BackendSettings &settings) {
          return std::make_unique<ReplayBackend>(settings, world_, log_, redis);
      }),
      backend_(static_cast<ReplayBackend &>(backends_.of(*rules.backend))),
      worker_(world_, backends_, log_) {
    for (const auto &rule : rules.rules) {
        if (rule->counted_as == tallies_.size()) {
            tallies_.push_back(std::make_unique<RuleTally>(rule->quota()));
        }
    }
}

Replay::~Replay() {
    for (const AtEnd &one : ends_) {
        one.request->limits->end();
    }
}

std::optional<Replay::Decision> Replay::decide(const Request &request, int64_t decided_us,
                                               int64_t ended_us) {
    Decision decision;
    end_requests(decided_us);
    decision.is_no_request = variables_.request_fields().has_path() && !request.path();
    if (rules_.server.answers_at_once || decision.is_no_request) {
        return decision;
    }
    const Level &level = request.path() ? rules_.server.serving(*request.path()) : rules_.server;
    if (level.answers_at_once) {
        return decision;
    }
    if (spare_ == nullptr) {
        spare_ = std::make_unique<ReplayedRequest>(*this);
    }
    world_.set_time(decided_us);
    spare_->begin(request);
    apply(*spare_, level, decided_us, ended_us, decision);
    spare_->end_line(level);
    if (has_end(*spare_->limits)) {
        ends_.push_back({ended_us, ends_made_++, std::move(spare_)});
        std::push_heap(ends_.begin(), ends_.end());
    } else {
        spare_->limits->end();
    }
    return backend_.error().empty() ? std::optional(decision) : std::nullopt;
}

void Replay::apply(ReplayedRequest &request, const Level &level, int64_t decided_us,
                   int64_t ended_us, Decision &decision) {
    limiter::LimitedRequest &limits = *limiter::LimitedRequest::create(worker_, request);
    request.limits = &limits;
    const AppliedRule *last = nullptr; // of those that are counted
    for (const rate_limit::Phase phase : rate_limit::all_phases) {
        Step step = limits.apply({level.rules, level.dry_run}, phase);
        if (step.kind == Step::Kind::wait) {
            decision.is_of_both_phases = last != nullptr;
            backend_.answer();
            step = limits.take_answers();
        }
        const AppliedRule *next = last != nullptr ? last->next : limits.rules().first();
        for (; next != nullptr; next = next->next) {
            count(*next, decided_us, ended_us);
            last = next;
        }
        if (step.kind == Step::Kind::hold_back) {
            decision.delay = std::max(decision.delay, step.decision.delaying->delay());
        }
        if (limits.is_rejected()) {
            break;
        }
    }
    decision.has_rules = last != nullptr;
    decision.is_rejected = limits.is_rejected();
}

void Replay::count(const AppliedRule &applied, int64_t decided_us, int64_t ended_us) {
    if (applied.verdict() == nullptr) {
        return; // of a number that is none
    }
    RuleTally &tally = *tallies_[rule_of(*applied.rule).counted_as];
    const Outcome outcome = outcome_of(applied);
    if (outcome == Outcome::rejected && !applied.dry_run) {
        tally.note_enforced();
    }
    tally.count(applied.key, {.time_us = decided_us,
                              .outcome = outcome,
                              .cost = applied.quota.cost,
                              .duration_us = ended_us - decided_us});
}

/// Ends the requests that had ended by then, in the order of their ends.
void Replay::end_requests(int64_t until_us) {
    while (!ends_.empty() && ends_.front().time_us <= until_us) {
        std::pop_heap(ends_.begin(), ends_.end());
        world_.set_time(ends_.back().time_us);
        end(*ends_.back().request);
        ends_.pop_back();
    }
}

void Replay::finish() {
    end_requests(std::numeric_limits<int64_t>::max());
}

void Replay::end(ReplayedRequest &request) {
    request.limits->settle();
    request.limits->end();
}

} // namespace replay
