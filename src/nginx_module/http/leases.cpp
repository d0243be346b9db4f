#include "nginx_module/http/leases.hpp"

#include "nginx_module/http/background_fetch.hpp"
#include "nginx_module/http/counter_identity.hpp"
#include "nginx_module/http/held_lease.hpp"
#include "nginx_module/util.hpp"

#include <algorithm>
#include <utility>

namespace nginx_module {

namespace {

using rate_limit::LeaseBook;
using std::chrono::microseconds;

const LeaseBook &book_of(const AppliedRule &applied) {
    return applied.rule->zone->memory.lease_book();
}

/// Whether the request's units may be taken from a lease. If the request has already charged the
/// counter, it asks for the rest of a cost alone.
bool may_take(const AppliedRule &applied) {
    const rate_limit::Quota &quota = applied.charge->quota;
    return applied.lease.time.count() > 0 && quota.charged == 0 && quota.charges() &&
           quota.cost <= quota.capacity();
}

/// Takes the rule's units. Returns false if Redis has to be asked for them.
bool take_units(AppliedRule &applied) {
    if (!may_take(applied)) {
        return false;
    }
    const BackendConf &backend = *applied.rule->zone->backend;
    const microseconds now = boot_now();
    applied.lease.account = identity_of(applied, static_cast<uint64_t>(applied.lease.time.count()));
    const auto account = book_of(applied).find_or_make(applied.lease.account, now);
    if (!account) {
        return false;
    }
    const auto step =
        rate_limit::take_step(*account, applied.charge->quota.cost,
                              {.lease_time = applied.lease.time,
                               .round_trip = backend_of(backend).counters().round_trip(),
                               .timeout = backend.session.timeout},
                              now);
    if (step.wanted > 0) {
        return_ended(applied, *account, now);
    }
    if (!step.taken) {
        applied.charge->wanted = step.wanted;
        applied.lease.claim = step.claim;
        return false;
    }
    applied.lease.taken = step.taken;
    applied.is_charged = true;
    applied.result = AppliedRule::Result::verdict;
    applied.source = AppliedRule::Source::lease;
    applied.decided = step.taken->at;
    applied.charge->verdict = rate_limit::verdict_of_lease(applied.quota, *account, now);
    if (step.wanted > 0) {
        BackgroundFetch::start(applied, step.claim, step.wanted);
    }
    return true;
}

/// Moves a rule forward, with its charge, because a check takes a row of charges.
void move(std::span<AppliedRule> rules, size_t from, size_t to) {
    redis_client::Charge *charges = rules.front().charge;
    std::rotate(charges + to, charges + from, charges + from + 1);
    std::rotate(rules.begin() + static_cast<ptrdiff_t>(to),
                rules.begin() + static_cast<ptrdiff_t>(from),
                rules.begin() + static_cast<ptrdiff_t>(from) + 1);
    for (size_t i = 0; i < rules.size(); ++i) {
        rules[i].charge = charges + i;
    }
}

void give_back_to_lease(const AppliedRule &applied, const LeaseBook::Taken &taken) {
    const auto account = book_of(applied).find(applied.lease.account);
    if (!account || !account->give_back(taken, boot_now())) {
        return_units(applied, unused(applied, taken));
    }
}

void give_back(AppliedRule &applied, const LeaseBook::Taken &taken) {
    give_back_to_lease(applied, taken);
    redis_client::Charge &charge = *applied.charge;
    charge.verdict = rate_limit::verdict_after_refund(charge.quota, charge.verdict);
    applied.is_charged = false;
}

} // namespace

std::span<AppliedRule> take_leased(std::span<AppliedRule> rules) {
    size_t leased = 0;
    for (size_t i = 0; i < rules.size(); ++i) {
        if (take_units(rules[i])) {
            move(rules, i, leased++);
        }
    }
    return rules.first(leased);
}

void give_back_leased(std::span<AppliedRule> rules) {
    for (AppliedRule &applied : rules) {
        if (applied.lease.taken) {
            give_back(applied, *std::exchange(applied.lease.taken, std::nullopt));
        }
    }
}

void return_to_lease(AppliedRule &applied, uint64_t units) {
    LeaseBook::Taken some = *applied.lease.taken;
    some.units = units;
    applied.lease.taken->units -= units;
    give_back_to_lease(applied, some);
}

void prepare_leases(redis_client::Backend &backend, std::span<AppliedRule> rules) {
    const auto wants = [](const AppliedRule &applied) { return applied.charge->wanted > 0; };
    if (std::ranges::none_of(rules, wants)) {
        return;
    }
    for (const AppliedRule &applied : rules) {
        applied.charge->may_lease = applied.rule->may_lease();
    }
    if (backend.has_script({rules.front().charge, rules.size()})) {
        return;
    }
    for (AppliedRule &applied : rules) {
        applied.charge->may_lease = false;
        if (const uint64_t wanted = std::exchange(applied.charge->wanted, 0)) {
            BackgroundFetch::start(applied, applied.lease.claim, wanted);
        }
    }
}

void keep_leases(std::span<AppliedRule> rules, Answered answered) {
    for (const AppliedRule &applied : rules) {
        const redis_client::Charge &charge = *applied.charge;
        if (charge.wanted == 0) {
            continue;
        }
        const rate_limit::LeasedUnits leased =
            answered == Answered::yes ? charge.leased : rate_limit::LeasedUnits{};
        const microseconds now = boot_now();
        const auto account = book_of(applied).find(applied.lease.account);
        if (account) {
            return_ended(applied, *account, now); // the new lease may take the place of one of them
        }
        const bool is_kept =
            account && rate_limit::finish_fetch(*account, applied.lease.claim, leased,
                                                charge.last_verdict(), now);
        if (leased.units == 0) {
            continue;
        }
        rate_limit::RuleCounters &counters = *applied.rule->first_of_name->counters;
        counters.count(rate_limit::LeaseCount::taken, 1);
        counters.count(rate_limit::LeaseCount::units, leased.units);
        ngx_log_debug2(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                       "redis_rate_limit has leased %uL units for %L us", leased.units,
                       static_cast<int64_t>(leased.usable_for.count()));
        if (is_kept) {
            HeldLease::hold(applied, rate_limit::end_of_lease(applied.lease.claim, leased));
        } else {
            return_units(applied, {.units = leased.units,
                                   .receipt = leased.receipt,
                                   .asked = applied.lease.claim.asked});
        }
    }
}

} // namespace nginx_module
