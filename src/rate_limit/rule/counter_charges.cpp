#include "rate_limit/rule/counter_charges.hpp"

#include <algorithm>

namespace rate_limit {

namespace {

uint64_t reserved_by(const Quota &quota) {
    return quota.reserves_nothing ? 0 : quota.cost;
}

/// Returns the units, also above the capacity, in the unit of Quota::charged.
uint64_t amount_of(const Quota &quota, uint64_t units) {
    return is_bucket(quota.algorithm) ? time_of_units(Interval(quota), units).us : units;
}

} // namespace

Quota quota_of_units(const Quota &quota, uint64_t units) {
    Quota some = quota;
    some.cost = units;
    some.charged = 0;
    some.reserves_nothing = false;
    return some;
}

bool CounterCharges::add(const Quota &quota) {
    charged_ += quota.to_charge();
    const bool is_strictest = !strictest_ || quota.limit <= strictest_->limit;
    if (is_strictest) {
        strictest_ = quota;
    }
    return is_strictest;
}

std::optional<Quota> CounterCharges::debt(uint64_t final_cost) const {
    const uint64_t reserved = reserved_by(*strictest_);
    if (final_cost <= reserved) {
        return std::nullopt;
    }
    Quota debt = quota_of_units(*strictest_, final_cost - reserved);
    // The strictest rule's own cost counts in units, so that no fraction of a microsecond is lost.
    debt.charged = charged_ - std::min(charged_, amount_of(*strictest_, reserved));
    return amount_of(debt, debt.cost) > debt.charged ? std::optional(debt) : std::nullopt;
}

Quota CounterCharges::next_return(const Quota &quota, uint64_t final_cost) {
    const uint64_t stays = std::min(amount_of(*strictest_, final_cost), charged_);
    const uint64_t most = charged_ - returned_ - std::min(charged_ - returned_, stays);
    const bool has_known_all = quota.charged == passed_;
    passed_ += quota.to_charge();
    Quota back = quota;
    if (has_known_all) {
        // As if the request had asked for what it took too much: a rule behind others gives back
        // what they have not given back already.
        const uint64_t reserved = reserved_by(quota);
        back = quota_of_units(quota, reserved - std::min(reserved, final_cost));
        back.charged = returned_;
    }
    back.charged += back.to_charge() - std::min(back.to_charge(), most);
    returned_ += back.to_charge();
    return back;
}

} // namespace rate_limit
