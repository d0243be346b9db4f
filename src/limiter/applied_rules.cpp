#include "limiter/applied_rules.hpp"

#include <utility>

namespace limiter {

void AppliedRules::add(AppliedRule &applied) {
    if (applied.is_left_out()) {
        applied.next = std::exchange(left_out_, &applied);
        return;
    }
    supersede(applied);
    *last_ = &applied;
    last_ = &applied.next;
}

void AppliedRules::abandon_asked() {
    for (AppliedRule &applied : std::exchange(asked_, {})) {
        applied.next = std::exchange(abandoned_, &applied);
    }
}

/// Marks earlier rules of the same counter, so that a client sees only one of them.
void AppliedRules::supersede(const AppliedRule &by) {
    if (by.verdict() == nullptr) {
        return;
    }
    for (AppliedRule *one = first_; one != nullptr; one = one->next) {
        if (one->rule->rule.same_counter(by.rule->rule) && by.is_enforced_where(one->dry_run)) {
            one->is_superseded = true;
        }
    }
}

const AppliedRule *AppliedRules::tightest() const {
    const AppliedRule *found = nullptr;
    for (const AppliedRule *one = first_; one != nullptr; one = one->next) {
        if (one->verdict() == nullptr || one->is_superseded) {
            continue;
        }
        const bool is_tighter =
            found == nullptr || (one->dry_run == found->dry_run && one->is_tighter(*found));
        if (is_tighter || (found->dry_run && !one->dry_run)) {
            found = one;
        }
    }
    return found;
}

template <typename Predicate>
AppliedRule *AppliedRules::find(Predicate is_such) const {
    for (AppliedRule *list : {first_, abandoned_}) {
        for (AppliedRule *one = list; one != nullptr; one = one->next) {
            if (is_such(*one)) {
                return one;
            }
        }
    }
    return nullptr;
}

bool AppliedRules::has(const Rule &rule, bool is_dry_run) const {
    return find([&](const AppliedRule &one) {
               return one.rule == &rule && one.is_enforced_where(is_dry_run);
           }) != nullptr;
}

AppliedRule *AppliedRules::covering(const AppliedRule &rule) {
    return find([&](const AppliedRule &one) { return one.covers(rule); });
}

bool AppliedRules::has_left_out(const Rule &rule) const {
    for (const AppliedRule *one = left_out_; one != nullptr; one = one->next) {
        if (one->rule->rule.same_counter(rule.rule)) {
            return true;
        }
    }
    return false;
}

bool AppliedRules::may_charge_counter_of(const AppliedRule &rule) const {
    bool may_be = false;
    for_each_charged([&](const AppliedRule &one) { may_be |= one.shares_counter(rule); });
    for (const AppliedRule *one = abandoned_; one != nullptr; one = one->next) {
        const bool may_be_unanswered = one->result.kind() == RuleResult::Kind::no_verdict;
        may_be |= may_be_unanswered && one->shares_counter(rule);
    }
    return may_be;
}

uint64_t AppliedRules::charged_to(const Zone &zone, std::string_view redis_key) const {
    uint64_t charged = 0;
    for (const AppliedRule *one = first_; one != nullptr; one = one->next) {
        if (one->rule->zone == &zone && one->charge->redis_key == redis_key) {
            charged += one->charged();
        }
    }
    return charged;
}

const AppliedRule *AppliedRules::last_charge(const Rule &rule, std::string_view key) const {
    const AppliedRule *last = nullptr;
    for (const AppliedRule *one = first_; one != nullptr; one = one->next) {
        if (one->rule->rule.same_counter(rule.rule) && one->key == key && one->charged() > 0) {
            last = one;
        }
    }
    return last;
}

} // namespace limiter
