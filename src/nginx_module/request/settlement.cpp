#include "settlement.hpp"

#include "../../rate_limit/text.hpp"
#include "../backend/backend.hpp"
#include "../util.hpp"
#include "fallback.hpp"
#include "held_lease.hpp"
#include "leases.hpp"
#include "log_lines.hpp"
#include "request_state.hpp"

#include <algorithm>
#include <optional>

namespace nginx_module {

namespace {

using rate_limit::SettlementResult;
using redis_client::SettlementKind;

/// Returns nothing if the request does not know it.
std::optional<uint64_t> final_cost_of(ngx_http_request_t *r, const RuleConf &rule) {
    ngx_str_t text;
    if (ngx_http_complex_value(r, rule.final_cost, &text) != NGX_OK || text.len == 0) {
        return std::nullopt;
    }
    const uint64_t largest = rate_limit::largest_cost(rule.rule.quota.algorithm);
    if (const auto number = rate_limit::parse_saturated_number(view(text), largest)) {
        return number;
    }
    rule.first_of_name->counters->count(rate_limit::RuleOutcome::invalid);
    log_invalid(r, rule, "final_cost", view(text), largest);
    return std::nullopt;
}

/// Whether the client's counters were deleted since it was charged, and the charge with them.
bool was_reset(const AppliedRule &applied) {
    const rate_limit::LiveLimits &limits = applied.rule->zone->memory.live_limits();
    return limits.was_reset_since(applied.encoded_key(), applied.asked);
}

void tell_redis(const AppliedRule &applied, SettlementKind kind, uint64_t units) {
    const redis_client::Charge charge = applied.charge_of(units, applied.charge->receipt);
    backend_of(*applied.rule->zone->backend)
        .settle({.kind = kind,
                 .charge = charge,
                 .aligned = applied.rule->rule.aligned,
                 .counters = *applied.rule->first_of_name->counters});
}

/// Settles what this host has charged: one of the numbers is 0.
void settle_here(const AppliedRule &applied, uint64_t to_return, uint64_t to_charge) {
    settle_on_this_host(applied, {.verdict = applied.charge->verdict,
                                  .decided = applied.decided,
                                  .to_return = to_return,
                                  .to_charge = to_charge});
    applied.rule->first_of_name->counters->count(to_charge > 0 ? SettlementResult::charged
                                                               : SettlementResult::returned);
}

void charge_more(const AppliedRule &applied, uint64_t units) {
    if (applied.source == AppliedRule::Source::local) {
        settle_here(applied, 0, units);
    } else {
        tell_redis(applied, SettlementKind::debt, units);
    }
}

/// Returns how many of these units the rule's own charge may have back: not what a rule that was
/// less strict has charged to the same counter, perhaps in another window.
uint64_t own_part(const redis_client::Charge &charge, uint64_t units) {
    return rate_limit::is_bucket(charge.quota.algorithm)
               ? units
               : std::min(units, charge.quota.to_charge());
}

void return_some(const AppliedRule &applied, uint64_t units) {
    if (applied.lease.taken) {
        return_to_lease(applied, units);
        applied.rule->first_of_name->counters->count(SettlementResult::returned);
    } else if (was_reset(applied)) {
        return;
    } else if (applied.source == AppliedRule::Source::local) {
        settle_here(applied, units, 0);
    } else if (const uint64_t own = own_part(*applied.charge, units)) {
        tell_redis(applied, SettlementKind::refund, own);
    }
}

} // namespace

ngx_int_t log_handler(ngx_http_request_t *r) noexcept {
    if (r == r->main) {
        if (RequestState *state = RequestState::find(r)) {
            state->settle();
        }
    }
    return NGX_OK;
}

void read_final_costs(ngx_http_request_t *r, std::span<AppliedRule> rules) {
    for (AppliedRule &applied : rules) {
        if (applied.rule->final_cost != nullptr) {
            applied.final_cost = final_cost_of(r, *applied.rule);
        }
    }
}

void settle(const AppliedRule &applied) {
    if (!applied.final_cost || !applied.is_charged || applied.is_superseded) {
        return;
    }
    const rate_limit::Quota &quota = applied.charge->quota;
    const uint64_t reserved = quota.reserves_nothing ? 0 : quota.cost;
    if (*applied.final_cost > reserved) {
        charge_more(applied, *applied.final_cost - reserved);
    } else if (*applied.final_cost < reserved) {
        return_some(applied, reserved - *applied.final_cost);
    }
}

} // namespace nginx_module
