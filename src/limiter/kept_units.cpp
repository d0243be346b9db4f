#include "limiter/kept_units.hpp"

namespace limiter {

namespace {

using std::chrono::microseconds;

void keep_lease(Worker &worker, const AppliedRule &applied, Answered answered) {
    const redis_client::Charge &charge = *applied.charge;
    const rate_limit::LeasedUnits leased =
        answered == Answered::yes ? charge.leased : rate_limit::LeasedUnits{};
    const microseconds now = worker.world.boot_now();
    const auto account = applied.rule->zone->memory.lease_book().find(applied.lease.account);
    if (account) { // the new lease may take the place of one of them
        worker.leases.return_ended(applied, *account, now);
    }
    const bool is_kept = account && rate_limit::finish_fetch(*account, applied.lease.claim, leased,
                                                             charge.last_verdict(), now);
    if (leased.units == 0) {
        return;
    }
    applied.counters().count(rate_limit::RuleCounter::leases_taken);
    applied.counters().count(rate_limit::RuleCounter::lease_units, leased.units);
    worker.log.report(LeaseEvent::leased, leased.units, leased.usable_for.count());
    if (is_kept) {
        worker.leases.hold(applied, rate_limit::end_of_lease(applied.lease.claim, leased));
    } else {
        worker.leases.return_units(
            applied,
            {.units = leased.units, .receipt = leased.receipt, .asked = applied.lease.claim.asked});
    }
}

} // namespace

void keep_leases(Worker &worker, std::span<AppliedRule> rules, Answered answered) {
    for (const AppliedRule &applied : rules) {
        if (applied.charge->wanted > 0) {
            keep_lease(worker, applied, answered);
        }
    }
}

} // namespace limiter
