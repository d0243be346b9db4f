#include "limiter/leases.hpp"

#include "limiter/background_fetch.hpp"
#include "limiter/counter_identity.hpp"

#include <algorithm>
#include <utility>

namespace limiter {

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
    return applied.lease_time.count() > 0 && quota.charged == 0 && quota.charges() &&
           quota.cost <= quota.capacity();
}

/// Takes the rule's units. Returns false if Redis has to be asked for them.
bool take_units(Worker &worker, AppliedRule &applied) {
    if (!may_take(applied)) {
        return false;
    }
    const redis_client::BackendSettings &backend = *applied.rule->zone->backend;
    const microseconds now = worker.world.boot_now();
    applied.lease.account = identity_of(applied, static_cast<uint64_t>(applied.lease_time.count()));
    const auto account = book_of(applied).find_or_make(applied.lease.account, now);
    if (!account) {
        return false;
    }
    const auto step =
        rate_limit::take_step(*account, applied.charge->quota.cost,
                              {.lease_time = applied.lease_time,
                               .round_trip = worker.backends.of(backend).counters().round_trip(),
                               .timeout = backend.session.timeout},
                              now, worker.world);
    if (step.wanted > 0 || !step.taken) {
        worker.leases.return_ended(applied, *account, now);
    }
    if (!step.taken) {
        applied.charge->wanted = step.wanted;
        applied.charge->lease_counters = &applied.counters();
        applied.lease.claim = step.claim;
        return false;
    }
    applied.lease.taken = step.taken;
    applied.is_charged = true;
    applied.decide(RuleResult::Source::lease,
                   rate_limit::verdict_of_lease(applied.quota, *account, now), step.taken->at);
    if (step.wanted > 0) {
        BackgroundFetch::start(worker, applied, step.claim, step.wanted);
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

void give_back_to_lease(Worker &worker, const AppliedRule &applied, const LeaseBook::Taken &taken) {
    const auto account = book_of(applied).find(applied.lease.account);
    if (!account || !account->give_back(taken, worker.world.boot_now())) {
        worker.leases.return_units(applied, unused(applied, taken));
    }
}

} // namespace

std::span<AppliedRule> take_leased(Worker &worker, std::span<AppliedRule> rules) {
    size_t leased = 0;
    for (size_t i = 0; i < rules.size(); ++i) {
        if (take_units(worker, rules[i])) {
            move(rules, i, leased++);
        }
    }
    return rules.first(leased);
}

void give_back_leased(Worker &worker, std::span<AppliedRule> rules) {
    for (AppliedRule &applied : rules) {
        if (applied.lease.taken) {
            give_back_to_lease(worker, applied, *std::exchange(applied.lease.taken, std::nullopt));
            redis_client::Charge &charge = *applied.charge;
            charge.verdict = rate_limit::verdict_after_refund(charge.quota, charge.verdict);
            applied.is_charged = false;
        }
    }
}

void return_to_lease(Worker &worker, AppliedRule &applied, uint64_t units) {
    LeaseBook::Taken some = *applied.lease.taken;
    some.units = units;
    applied.lease.taken->units -= units;
    give_back_to_lease(worker, applied, some);
}

void prepare_leases(Worker &worker, std::span<AppliedRule> rules) {
    const auto wants = [](const AppliedRule &applied) { return applied.charge->wanted > 0; };
    if (std::ranges::none_of(rules, wants)) {
        return;
    }
    for (const AppliedRule &applied : rules) {
        applied.charge->may_lease = applied.rule->may_lease();
    }
    const redis_client::Backend &backend = worker.backends.of(*rules.front().rule->zone->backend);
    if (backend.has_script({rules.front().charge, rules.size()})) {
        return;
    }
    for (AppliedRule &applied : rules) {
        applied.charge->may_lease = false;
        if (const uint64_t wanted = std::exchange(applied.charge->wanted, 0)) {
            BackgroundFetch::start(worker, applied, applied.lease.claim, wanted);
        }
    }
}

} // namespace limiter
