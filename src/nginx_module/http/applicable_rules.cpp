#include "nginx_module/http/applicable_rules.hpp"

#include "nginx_module/http/log_lines.hpp"
#include "nginx_module/util.hpp"
#include "rate_limit/text/key.hpp"
#include "rate_limit/text/text.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace nginx_module {

namespace {

using std::chrono::microseconds;

/// Whether a rule applies to a request, by the values of the request's variables.
enum class Evaluated {
    applies,
    invalid,
    applies_not,
    no_memory,
};

bool evaluate_text(ngx_http_request_t *r, const ngx_http_complex_value_t &value, ngx_str_t &text) {
    return ngx_http_complex_value(r, const_cast<ngx_http_complex_value_t *>(&value), &text) ==
           NGX_OK;
}

/// A number of a rule that a variable may give; the variable is null if none does.
struct GivenNumber {
    const char *parameter;
    const ngx_http_complex_value_t *variable;
    uint64_t largest;
    uint64_t *number;
    ngx_str_t text{};
};

/// Returns false if it is no such number; the log says so.
bool read_number(ngx_http_request_t *r, const RuleConf &rule, const GivenNumber &given) {
    const auto number = rate_limit::parse_whole_number(view(given.text), given.largest);
    if (!number) {
        log_invalid(r, rule, given.parameter, view(given.text), given.largest);
        return false;
    }
    *given.number = *number;
    return true;
}

/// Evaluates the variables of a rule. An empty one exempts the request from the rule, whatever a
/// client wrote into another one.
Evaluated evaluate_variables(ngx_http_request_t *r, std::span<GivenNumber> numbers) {
    for (GivenNumber &one : numbers) {
        if (one.variable != nullptr && !evaluate_text(r, *one.variable, one.text)) {
            return Evaluated::no_memory;
        }
        if (one.variable != nullptr && one.text.len == 0) {
            return Evaluated::applies_not;
        }
    }
    return Evaluated::applies;
}

/// Returns false if one of them is no such number; the log says so.
bool read_numbers(ngx_http_request_t *r, const RuleConf &rule,
                  std::span<const GivenNumber> numbers) {
    return std::ranges::all_of(numbers, [&](const GivenNumber &one) {
        return one.variable == nullptr || read_number(r, rule, one);
    });
}

/// Evaluates the rule's numbers. Those of the override, if it has any, stand for the configured
/// ones, whose variables are then not evaluated. For a ban the numbers do not matter, but whether
/// the rule applies.
Evaluated evaluate_quota(ngx_http_request_t *r, const RuleConf &rule,
                         const rate_limit::Override &live, rate_limit::Quota &quota) {
    quota = rule.rule.quota;
    const auto *const limit_variable = live.limit ? nullptr : rule.limit;
    const auto *const burst_variable = live.burst ? nullptr : rule.burst;
    uint64_t burst = 0;
    GivenNumber numbers[] = {
        {"limit", limit_variable, rate_limit::largest_limit(quota.algorithm), &quota.limit},
        {"burst", burst_variable, rate_limit::largest_number, &burst},
        {"cost", rule.cost, rate_limit::largest_cost(quota.algorithm), &quota.cost},
    };
    const Evaluated variables = evaluate_variables(r, numbers);
    if (variables != Evaluated::applies || live.action == rate_limit::Override::Action::ban) {
        return variables;
    }
    if (!read_numbers(r, rule, numbers)) {
        return Evaluated::invalid;
    }
    rate_limit::keep_cost_free(quota, rule.final_cost != nullptr);
    if (burst_variable != nullptr) {
        quota.burst = burst;
    }
    if (live.limit || live.burst) {
        quota = rate_limit::overridden(quota, live, rule.rule.shards);
    } else if (quota.refill() > rate_limit::longest_refill) { // `nginx -t` refuses such literals
        const uint64_t given = quota.burst.value_or(0);
        const uint64_t largest = quota.largest_capacity() - (quota.capacity() - given);
        log_invalid(r, rule, "burst", std::to_string(given), largest);
        return Evaluated::invalid;
    }
    return Evaluated::applies;
}

/// Returns what an operator has set for the rule's key or for the rule, or an override without
/// numbers if nothing is set.
rate_limit::Override find_override(const AppliedRule &applied) {
    const ZoneConf &zone = *applied.rule->zone;
    const rate_limit::LiveLimits &limits = zone.memory.live_limits();
    if (!limits.may_override()) {
        return {};
    }
    std::array<char, 128> buffer;
    const auto redis_now = [&zone] { return zone.backend->memory.redis_now(precise_now()); };
    return limits
        .find(rate_limit::encode_client_key(applied.key, buffer), applied.rule->name, redis_now)
        .value_or(rate_limit::Override{});
}

/// Lets a ban decide. It is stricter than any numbers.
void ban(AppliedRule &applied, const rate_limit::Override &live) {
    const microseconds now = applied.rule->zone->backend->memory.redis_now(precise_now());
    const bool ends = live.expires_at.count() > 0;
    applied.ban = {.ends_in =
                       ends ? std::max(live.expires_at - now, microseconds{1}) : microseconds{0}};
    applied.quota = {.algorithm = applied.rule->rule.quota.algorithm,
                     .window = applied.rule->rule.quota.window,
                     .limit = 0,
                     .cost = rate_limit::largest_number};
}

/// Evaluates the rule's key and its numbers.
Evaluated evaluate(ngx_http_request_t *r, AppliedRule &applied) {
    ngx_str_t key;
    if (!evaluate_text(r, applied.rule->zone->key, key)) {
        return Evaluated::no_memory;
    }
    applied.key = view(key);
    if (key.len == 0) {
        return Evaluated::applies_not;
    }
    const RuleConf &rule = *applied.rule;
    const rate_limit::Override live = find_override(applied);
    if (live.action == rate_limit::Override::Action::exempt) {
        return Evaluated::applies_not;
    }
    const Evaluated evaluated = evaluate_quota(r, rule, live, applied.quota);
    if (live.action == rate_limit::Override::Action::ban) {
        ban(applied, live);
        return evaluated;
    }
    applied.has_own_numbers = rule.has_variables() || live.limit || live.burst;
    applied.lease.time = rule.may_lease() && applied.has_own_numbers
                             ? rate_limit::lease_time(applied.quota, rule.rule.lease)
                             : rule.lease_time;
    return evaluated;
}

/// Keeps the rule's final cost for the rule that was applied in its place. Returns false if memory
/// ran out.
bool keep_final_cost(ngx_pool_t *pool, const RuleConf &rule, AppliedRule &applied) {
    if (rule.final_cost == nullptr) {
        return true;
    }
    for (const SkippedRule *known = applied.skipped; known != nullptr; known = known->next) {
        if (known->rule == &rule) {
            return true;
        }
    }
    auto *skipped = pool_array<SkippedRule>(pool, 1);
    if (skipped == nullptr) {
        return false;
    }
    *skipped = {.rule = &rule, .next = std::exchange(applied.skipped, skipped)};
    return true;
}

} // namespace

ngx_int_t ApplicableRules::find(ngx_http_request_t *r, Phase phase, AppliedRules *applied) {
    const LocationConf &location = location_conf(r);
    for (const RuleConf *rule : *location.rules) {
        const bool is_dry_run = location.is_dry_run(*rule);
        if (rule->phase != phase || (applied != nullptr && applied->has(*rule, is_dry_run))) {
            continue;
        }
        if (rules_ == nullptr) {
            rules_ = pool_array<AppliedRule>(r->pool, location.rules->size());
            if (rules_ == nullptr) {
                return NGX_ERROR;
            }
        }
        AppliedRule &last = rules_[count_];
        last = AppliedRule{};
        last.rule = rule;
        last.dry_run = is_dry_run;
        const Evaluated evaluated = evaluate(r, last);
        if (evaluated == Evaluated::no_memory) {
            return NGX_ERROR;
        }
        if (evaluated == Evaluated::invalid) {
            last.result = AppliedRule::Result::invalid;
        }
        if (evaluated != Evaluated::applies_not && !take_if_needed(r->pool, applied)) {
            return NGX_ERROR;
        }
    }
    return count_ > 0 ? make_charges(r->pool) : NGX_OK;
}

bool ApplicableRules::take_if_needed(ngx_pool_t *pool, AppliedRules *applied) {
    const AppliedRule &last = rules_[count_];
    if (applied != nullptr && last.result == AppliedRule::Result::invalid) {
        if (applied->has_left_out(*last.rule)) {
            return true;
        }
    } else if (AppliedRule *covering = applied != nullptr ? applied->covering(last) : nullptr) {
        return keep_final_cost(pool, *last.rule, *covering);
    }
    take_last();
    return true;
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
        last->source = AppliedRule::Source::redis;
    } else {
        ++decided_;
    }
    ++count_;
    std::rotate(place, last, last + 1);
}

/// Makes the charges, in the order of the rules, because a check takes a row of them. The charges
/// of decided rules get their verdicts. Returns NGX_OK, or NGX_ERROR if memory ran out.
ngx_int_t ApplicableRules::make_charges(ngx_pool_t *pool) const {
    auto *charges = pool_array<redis_client::Charge>(pool, count_);
    if (charges == nullptr) {
        return NGX_ERROR;
    }
    for (size_t i = 0; i < count_; ++i) {
        charges[i].quota = rules_[i].quota;
        charges[i].dry_run = rules_[i].dry_run;
        charges[i].block = rules_[i].rule->rule.block_of(rules_[i].dry_run);
        rules_[i].charge = &charges[i];
    }
    for (AppliedRule &rule : decided()) {
        if (rule.result == AppliedRule::Result::invalid) {
            continue;
        }
        rule.charge->verdict =
            rule.ban ? rule.ban->verdict() : *rate_limit::verdict_without_counter(rule.quota);
        rule.source = rule.ban ? AppliedRule::Source::override : AppliedRule::Source::none;
        rule.result = AppliedRule::Result::verdict;
        rule.decided = precise_now();
    }
    return NGX_OK;
}

} // namespace nginx_module
