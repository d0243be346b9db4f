#include "limiter/settlement.hpp"

#include "limiter/fallback.hpp"
#include "limiter/leases.hpp"
#include "rate_limit/rule/counter_charges.hpp"
#include "rate_limit/text/times_and_numbers.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace limiter {

namespace {

using rate_limit::LocalSettlement;
using rate_limit::RuleCounter;
using redis_client::SettlementKind;

/// Returns nothing if the rule has none, or if the request does not know it.
std::optional<uint64_t> final_cost_of(Request &request, const Rule &rule) {
    const auto text =
        rule.has_final_cost() ? request.text(rule, RuleText::final_cost) : std::nullopt;
    if (!text || text->empty()) {
        return std::nullopt;
    }
    const uint64_t largest = rate_limit::largest_cost(rule.rule.quota.algorithm);
    if (const auto number = rate_limit::parse_saturated_number(*text, largest)) {
        return number;
    }
    rule.first_of_name->counters->count(rate_limit::RuleOutcome::invalid);
    request.report({.rule = rule, .parameter = "final_cost", .value = *text, .largest = largest});
    return std::nullopt;
}

/// Whether the client's counters were deleted since it was charged, and the charge with them.
bool was_reset(const AppliedRule &applied) {
    const rate_limit::LiveLimits &limits = applied.rule->zone->memory.live_limits();
    return limits.was_reset_since(applied.encoded_key(), applied.asked);
}

void settle_here(Worker &worker, const AppliedRule &applied, const rate_limit::Quota &units,
                 uint64_t LocalSettlement::*as) {
    LocalSettlement settlement{.receipt = applied.charge->receipt};
    const bool is_time = rate_limit::is_bucket(units.algorithm);
    settlement.*as = is_time ? units.cost : units.to_charge();
    settlement.left_out = is_time ? units.charged : 0;
    settle_on_this_host(worker, applied, settlement);
}

/// Settles what one request has charged to one Redis key, or to this host's counter in its place.
class Settling {
  public:
    explicit Settling(Worker &worker) : worker_(worker) {}

    /// Charges so much more, as the rule counts it.
    void charge_more(const AppliedRule &applied, const rate_limit::Quota &debt) {
        if (applied.is_decided_by(RuleResult::Source::local)) {
            settle_here(worker_, applied, debt, &LocalSettlement::to_charge);
            applied.counters().count(RuleCounter::settlements_charged);
        } else {
            tell_redis(applied, SettlementKind::debt, debt);
        }
    }

    /// Gives so much back of what the rule has charged.
    void give_back(AppliedRule &applied, const rate_limit::Quota &back) {
        if (applied.lease.taken) {
            return_to_lease(worker_, applied, rate_limit::units_to_charge(back));
            returned_here_ = &applied.counters();
        } else if (was_reset(applied)) {
            return;
        } else if (applied.is_decided_by(RuleResult::Source::local)) {
            settle_here(worker_, applied, back, &LocalSettlement::to_return);
            returned_here_ = &applied.counters();
        } else {
            tell_redis(applied, SettlementKind::refund, back);
        }
    }

    /// Counts the request, if Redis need not be told anything.
    void end() {
        if (!is_counted_ && returned_here_ != nullptr) {
            returned_here_->count(RuleCounter::settlements_returned);
        }
    }

  private:
    /// The request is counted with the first settlement.
    void tell_redis(const AppliedRule &applied, SettlementKind kind,
                    const rate_limit::Quota &units) {
        const redis_client::Charge charge = applied.charge_of(units);
        worker_.backends.settle(
            *applied.rule->zone->backend,
            {.kind = kind,
             .charge = charge,
             .aligned = applied.rule->rule.aligned,
             .counters = std::exchange(is_counted_, true) ? nullptr : &applied.counters()});
    }

    Worker &worker_;
    bool is_counted_ = false;
    rate_limit::RuleCounters *returned_here_ = nullptr;
};

/// Calls `use` for each rule that has charged the same counter of the same client.
template <typename Use>
void for_each_charge_of_counter(const AppliedRules &rules, const AppliedRule &of, const Use &use) {
    rules.for_each_charged([&](AppliedRule &one) {
        if (one.shares_counter(of)) {
            use(one);
        }
    });
}

/// Returns the final cost of the request for the Redis key of the rule: the largest that a rule of
/// the counter has, whichever of them has charged it. Where a counter has shards of which the
/// request has charged several, the last one counts, and the others nothing.
std::optional<uint64_t> final_cost_at(const AppliedRules &rules, const AppliedRule &at) {
    std::optional<uint64_t> largest;
    rules.for_each([&](const AppliedRule &one) {
        if (one.shares_counter(at)) {
            largest = std::max(largest, one.final_cost);
        }
    });
    bool is_last = true;
    for_each_charge_of_counter(rules, at,
                               [&](const AppliedRule &one) { is_last = one.shares_redis_key(at); });
    return largest && !is_last ? 0 : largest;
}

/// Settles all charges to the Redis key of the rule.
void settle_at(Worker &worker, const AppliedRules &rules, const AppliedRule &at) {
    rate_limit::CounterCharges charges;
    AppliedRule *strictest = nullptr;
    const auto for_each_charge = [&](const auto &use) {
        for_each_charge_of_counter(rules, at, [&](AppliedRule &one) {
            if (one.shares_redis_key(at)) {
                use(one);
            }
        });
    };
    for_each_charge([&](AppliedRule &one) {
        one.is_settled = true;
        if (charges.add(one.charge->quota)) {
            strictest = &one;
        }
    });
    const auto final_cost = final_cost_at(rules, at);
    if (!final_cost) {
        return;
    }
    Settling settling(worker);
    if (const auto debt = charges.debt(*final_cost)) {
        settling.charge_more(*strictest, *debt);
        return;
    }
    for_each_charge([&](AppliedRule &one) {
        const rate_limit::Quota back = charges.next_return(one.charge->quota, *final_cost);
        if (back.charges()) {
            settling.give_back(one, back);
        }
    });
    settling.end();
}

} // namespace

namespace {

void read_final_cost(Request &request, AppliedRule &applied) {
    applied.final_cost = final_cost_of(request, *applied.rule);
    for (const SkippedRule *one = applied.skipped; one != nullptr; one = one->next) {
        applied.final_cost = std::max(applied.final_cost, final_cost_of(request, *one->rule));
    }
}

} // namespace

void read_final_costs(Request &request, const AppliedRules &rules) {
    rules.for_each([&](AppliedRule &applied) {
        const bool has_final_cost = applied.rule->has_final_cost() || applied.skipped != nullptr;
        if (has_final_cost && rules.may_charge_counter_of(applied)) {
            read_final_cost(request, applied);
        }
    });
}

void settle(Worker &worker, const AppliedRules &rules) {
    rules.for_each_charged([&](const AppliedRule &one) {
        if (!one.is_settled) {
            settle_at(worker, rules, one);
        }
    });
}

} // namespace limiter
