// All rules that were applied to a request so far.
#pragma once

#include "limiter/applied_rule.hpp"

#include <span>
#include <string_view>

namespace limiter {

class AppliedRules {
  public:
    void add(AppliedRule &applied);
    /// Sets the rules of the checks that were asked last.
    void set_asked(std::span<AppliedRule> asked) { asked_ = asked; }
    std::span<AppliedRule> asked() const { return asked_; }
    /// The request does not wait for the rules that were asked last. They may be charged all the
    /// same, now or when their answers come.
    void abandon_asked();

    /// Returns the first of a list, in the order in which rules were applied, without rules that
    /// were left out.
    AppliedRule *first() const { return first_; }
    /// Returns the first of a list of rules that were abandoned.
    AppliedRule *first_abandoned() const { return abandoned_; }
    /// Calls `use` for each rule, without those that were left out: for those that were applied, in
    /// their order, and then for those that were abandoned.
    template <typename Use>
    void for_each(const Use &use) const {
        for (AppliedRule *list : {first_, abandoned_}) {
            for (AppliedRule *one = list; one != nullptr; one = one->next) {
                use(*one);
            }
        }
    }
    /// The same for each rule that has charged something.
    template <typename Use>
    void for_each_charged(const Use &use) const {
        for_each([&](AppliedRule &one) {
            if (one.is_charged) {
                use(one);
            }
        });
    }
    /// Whether the counter of the rule was charged for the same client, by whichever rule, or may
    /// be when a check is answered that was abandoned.
    bool may_charge_counter_of(const AppliedRule &rule) const;
    /// Returns the rule that a client should look at first. A dry run counts only if nothing is
    /// enforced. Returns null if no rule has a verdict.
    const AppliedRule *tightest() const;

    /// Whether the rule itself was applied; if it is enforced now, it must have been enforced, too.
    bool has(const Rule &rule, bool is_dry_run) const;
    /// Returns an applied rule that makes it needless to apply this one: see "Which requests are
    /// counted" in docs/responses.md. Returns null if there is none.
    AppliedRule *covering(const AppliedRule &rule);
    bool has_left_out(const Rule &rule) const;
    /// Returns what the applied rules have charged to a Redis key of the zone, in the unit of
    /// Quota::charged.
    uint64_t charged_to(const Zone &zone, std::string_view redis_key) const;
    /// Returns the rule that charged the same counter of the same client last; null if none did.
    const AppliedRule *last_charge(const Rule &rule, std::string_view key) const;

  private:
    void supersede(const AppliedRule &by);
    template <typename Predicate>
    AppliedRule *find(Predicate is_such) const;

    AppliedRule *first_ = nullptr;
    AppliedRule **last_ = &first_;
    AppliedRule *left_out_ = nullptr;
    AppliedRule *abandoned_ = nullptr;
    std::span<AppliedRule> asked_;
};

} // namespace limiter
