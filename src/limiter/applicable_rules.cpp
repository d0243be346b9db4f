#include "limiter/applicable_rules.hpp"

#include "rate_limit/text/field_value.hpp"
#include "rate_limit/text/key.hpp"
#include "rate_limit/text/times_and_numbers.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace limiter {

namespace {

using std::chrono::microseconds;

/// A number of a rule that a variable may give.
struct GivenNumber {
    const char *parameter;
    RuleText which;
    bool is_given;
    uint64_t largest;
    uint64_t *number;
    std::string_view text{};
};

/// Returns false if one of them is no such number; the log says so.
bool read_numbers(Request &request, const Rule &rule, std::span<const GivenNumber> numbers) {
    return std::ranges::all_of(numbers, [&](const GivenNumber &one) {
        if (!one.is_given) {
            return true;
        }
        const auto number = rate_limit::parse_whole_number(one.text, one.largest);
        if (!number) {
            request.report({rule, one.parameter, one.text, one.largest});
            return false;
        }
        *one.number = *number;
        return true;
    });
}

} // namespace

/// Evaluates the rule's numbers into `quota`, which has those of the configuration. Those of the
/// override, if it has any, stand for them, and their variables are then not evaluated. For a ban
/// the numbers do not matter, but whether the rule applies. An empty variable exempts the request
/// from the rule, whatever a client wrote into another one.
ApplicableRules::Evaluated ApplicableRules::evaluate_quota(const rate_limit::Override &live,
                                                           const Rule &rule,
                                                           rate_limit::Quota &quota) {
    const bool is_limit_given = !live.limit && !rule.limit_text.empty();
    const bool is_burst_given = !live.burst && !rule.burst_text.empty();
    uint64_t burst = 0;
    GivenNumber numbers[] = {
        {"limit", RuleText::limit, is_limit_given, rate_limit::largest_limit(quota.algorithm),
         &quota.limit},
        {"burst", RuleText::burst, is_burst_given, rate_limit::largest_number, &burst},
        {"cost", RuleText::cost, !rule.cost_text.empty(), rate_limit::largest_cost(quota.algorithm),
         &quota.cost},
    };
    for (GivenNumber &one : numbers) {
        if (!one.is_given) {
            continue;
        }
        const auto text = request_.text(rule, one.which);
        if (!text) {
            return Evaluated::no_memory;
        }
        if (text->empty()) {
            return Evaluated::applies_not;
        }
        one.text = *text;
    }
    if (live.action == rate_limit::Override::Action::ban) {
        return Evaluated::applies;
    }
    if (!read_numbers(request_, rule, numbers)) {
        return Evaluated::invalid;
    }
    rate_limit::keep_cost_free(quota, rule.has_final_cost());
    if (is_burst_given) {
        quota.burst = burst;
    }
    if (live.limit || live.burst) {
        quota = rate_limit::overridden(quota, live, rule.rule.shards);
    } else if (quota.refill() > rate_limit::longest_refill) { // such literals are refused
        const uint64_t given = quota.burst.value_or(0);
        const uint64_t largest = quota.largest_capacity() - (quota.capacity() - given);
        request_.report({rule, "burst", std::to_string(given), largest});
        return Evaluated::invalid;
    }
    return Evaluated::applies;
}

/// Returns what an operator has set for the rule's key or for the rule, or an override without
/// numbers if nothing is set.
rate_limit::Override ApplicableRules::find_override(const AppliedRule &applied) const {
    const Zone &zone = *applied.rule->zone;
    const rate_limit::LiveLimits &limits = zone.memory.live_limits();
    if (!limits.may_override()) {
        return {};
    }
    std::array<char, 128> buffer;
    const auto redis_now = [&] {
        return zone.backend->memory.redis_now(worker_.world.precise_now());
    };
    return limits
        .find(rate_limit::encode_client_key(applied.key, buffer), applied.rule->name, redis_now)
        .value_or(rate_limit::Override{});
}

/// Lets a ban decide. It is stricter than any numbers.
void ApplicableRules::ban(AppliedRule &applied, const rate_limit::Override &live) const {
    const microseconds now =
        applied.rule->zone->backend->memory.redis_now(worker_.world.precise_now());
    const bool ends = live.expires_at.count() > 0;
    applied.ban = {.ends_in =
                       ends ? std::max(live.expires_at - now, microseconds{1}) : microseconds{0}};
    applied.quota = {.algorithm = applied.rule->rule.quota.algorithm,
                     .window = applied.rule->rule.quota.window,
                     .limit = 0,
                     .cost = rate_limit::largest_number};
}

/// Evaluates the rule's key and its numbers. The key is copied, because a check may outlive its
/// request.
ApplicableRules::Evaluated ApplicableRules::evaluate(AppliedRule &applied) {
    const Rule &rule = *applied.rule;
    const auto text = request_.key(*rule.zone);
    if (!text) {
        return Evaluated::no_memory;
    }
    applied.key = *text;
    if (rule.zone->cuts_key && rate_limit::has_outer_blanks(applied.key)) {
        applied.key = rate_limit::without_outer_blanks(applied.key, request_.address());
    }
    if (applied.key.empty()) {
        return Evaluated::applies_not;
    }
    const rate_limit::Override live = find_override(applied);
    if (live.action == rate_limit::Override::Action::exempt) {
        return Evaluated::applies_not;
    }
    const auto key = arena_.copy(applied.key);
    if (!key) {
        return Evaluated::no_memory;
    }
    applied.key = *key;
    applied.quota = rule.rule.quota;
    if (rule.rule.calendar != nullptr) {
        applied.quota.set_window_at(worker_.world.unix_now());
    }
    applied.has_own_numbers = rule.has_variables() || live.limit || live.burst;
    const Evaluated evaluated =
        applied.has_own_numbers ? evaluate_quota(live, rule, applied.quota) : Evaluated::applies;
    if (live.action == rate_limit::Override::Action::ban) {
        ban(applied, live);
        return evaluated;
    }
    applied.lease_time = rule.may_lease() && applied.has_own_numbers
                             ? rate_limit::lease_time(applied.quota, rule.rule.lease)
                             : rule.lease_time;
    return evaluated;
}

bool ApplicableRules::find(const Level &level, rate_limit::Phase phase) {
    for (const Rule *rule : level.rules) {
        const bool is_dry_run = level.is_dry_run || rule->dry_run;
        if (rule->phase != phase || applied_.has(*rule, is_dry_run)) {
            continue;
        }
        if (rules_ == nullptr) {
            rules_ = arena_.array<AppliedRule>(level.rules.size());
            if (rules_ == nullptr) {
                return false;
            }
        }
        AppliedRule &last = rules_[count_];
        last = AppliedRule{};
        last.rule = rule;
        last.dry_run = is_dry_run;
        const Evaluated evaluated = evaluate(last);
        if (evaluated == Evaluated::no_memory) {
            return false;
        }
        if (evaluated == Evaluated::invalid) {
            last.result = RuleResult::invalid();
        }
        if (evaluated != Evaluated::applies_not && !take_if_needed()) {
            return false;
        }
    }
    return count_ == 0 || make_charges();
}

/// Takes the rule behind the last one that was taken, unless it is needless to apply it. Returns
/// false if memory ran out.
bool ApplicableRules::take_if_needed() {
    const AppliedRule &last = rules_[count_];
    if (last.result.kind() == RuleResult::Kind::invalid) {
        if (applied_.has_left_out(*last.rule)) {
            return true;
        }
    } else if (AppliedRule *covering = applied_.covering(last)) {
        return keep_final_cost(*last.rule, *covering);
    }
    take_last();
    return true;
}

/// Keeps the rule's final cost for the rule that was applied in its place. Returns false if memory
/// ran out.
bool ApplicableRules::keep_final_cost(const Rule &rule, AppliedRule &applied) {
    if (!rule.has_final_cost()) {
        return true;
    }
    for (const SkippedRule *known = applied.skipped; known != nullptr; known = known->next) {
        if (known->rule == &rule) {
            return true;
        }
    }
    auto *skipped = arena_.make<SkippedRule>(&rule, applied.skipped);
    applied.skipped = skipped != nullptr ? skipped : applied.skipped;
    return skipped != nullptr;
}

/// Takes the rule behind the last one that was taken, and moves it to its place: behind the other
/// decided rules, or behind the rules that are asked together with it.
void ApplicableRules::take_last() {
    AppliedRule *const last = rules_ + count_;
    AppliedRule *place = rules_ + decided_;
    if (last->is_open()) {
        const auto is_beside = [&](const AppliedRule &one) {
            return are_asked_together(*one.rule, *last->rule);
        };
        AppliedRule *const beside = std::find_if(place, last, is_beside);
        place = std::find_if_not(beside, last, is_beside);
    } else {
        ++decided_;
    }
    ++count_;
    std::rotate(place, last, last + 1);
}

/// Makes the charges, in the order of the rules, because a check takes a row of them. The charges
/// of decided rules get their verdicts. Returns false if memory ran out.
bool ApplicableRules::make_charges() {
    auto *charges = arena_.array<redis_client::Charge>(count_);
    if (charges == nullptr) {
        return false;
    }
    for (size_t i = 0; i < count_; ++i) {
        charges[i].quota = rules_[i].quota;
        charges[i].dry_run = rules_[i].dry_run;
        charges[i].block = rules_[i].rule->rule.block_of(rules_[i].dry_run);
        rules_[i].charge = &charges[i];
    }
    for (AppliedRule &rule : decided()) {
        if (rule.ban) {
            rule.decide(RuleResult::Source::override, rule.ban->verdict(),
                        worker_.world.precise_now());
        } else if (rule.result.kind() != RuleResult::Kind::invalid) {
            rule.decide(RuleResult::Source::none, *rate_limit::verdict_without_counter(rule.quota),
                        worker_.world.precise_now());
        }
    }
    return true;
}

} // namespace limiter
