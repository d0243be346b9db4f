#include "nginx_module/http/abandoned_check.hpp"

#include "nginx_module/http/backend_check.hpp"
#include "nginx_module/http/fallback.hpp"
#include "nginx_module/http/leases.hpp"
#include "nginx_module/http/log_lines.hpp"
#include "nginx_module/http/rule_outcomes.hpp"
#include "nginx_module/http/settlement.hpp"
#include "nginx_module/util.hpp"

#include <algorithm>
#include <new>

namespace nginx_module {

namespace {

/// Copies the charge's arguments to the pool if they are in the request's memory. Arguments that
/// the rule has for all its checks stay where they are, so that checks still share them. Returns
/// false if memory ran out.
bool copy_arguments(ngx_pool_t *pool, const RuleConf &rule, redis_client::Charge &charge) {
    if (rule.owns(*charge.arguments)) {
        return true;
    }
    auto *own = pool_array<redis_client::WireWords>(pool, 1);
    if (own == nullptr) {
        return false;
    }
    *own = *charge.arguments;
    charge.arguments = own;
    return true;
}

} // namespace

AbandonedCheck *AbandonedCheck::make(std::span<const AppliedRule> rules,
                                     std::chrono::microseconds asked,
                                     redis_client::WorkerCounters &counters) {
    constexpr size_t room_for_a_few_rules = 1024;
    ngx_pool_t *pool = ngx_create_pool(room_for_a_few_rules, ngx_cycle->log);
    if (pool == nullptr) {
        return nullptr;
    }
    auto *applied = pool_array<AppliedRule>(pool, rules.size());
    auto *charges = pool_array<redis_client::Charge>(pool, rules.size());
    void *memory = ngx_palloc(pool, sizeof(AbandonedCheck));
    bool has_memory = applied != nullptr && charges != nullptr && memory != nullptr;
    for (size_t i = 0; i < rules.size() && has_memory; ++i) {
        charges[i] = *rules[i].charge;
        applied[i] = rules[i];
        applied[i].charge = &charges[i];
        has_memory = copy_text(pool, charges[i].redis_key) && copy_text(pool, applied[i].key) &&
                     copy_arguments(pool, *applied[i].rule, charges[i]);
    }
    if (!has_memory) {
        ngx_destroy_pool(pool);
        return nullptr;
    }
    return new (memory)
        AbandonedCheck(pool, {applied, rules.size()}, {charges, rules.size()}, asked, counters);
}

void AbandonedCheck::on_answer(std::optional<redis_client::Failure> failure) {
    counters_.check_answered(failure, asked_, precise_now());
    keep_leases(rules_, failure ? Answered::no : Answered::yes);
    count_abandoned(rules_, failure.has_value());
    if (waiting_check_ != nullptr) {
        waiting_check_->take_late_answer(rules_);
    } else {
        settle_each(rules_);
    }
    ngx_destroy_pool(pool_); // this object is in the pool, too
}

void AbandonedCheck::settle_later(std::span<const AppliedRule> rules) {
    waiting_check_ = nullptr;
    for (size_t i = 0; i < rules.size(); ++i) {
        rules_[i].final_cost = rules[i].final_cost;
    }
}

std::string_view AbandonedCheck::describe(std::span<char> out) const {
    return describe_rules(rules_, out);
}

void count_abandoned(std::span<AppliedRule> rules, bool has_failed) {
    if (has_failed) {
        decide_on_this_host(rules);
    } else {
        for (AppliedRule &applied : rules) {
            applied.result = AppliedRule::Result::verdict;
            applied.is_charged = applied.charge->is_charged;
        }
    }
    count_outcomes(rules);
    for (const AppliedRule &applied : rules) {
        release_permits_of_this_host(&applied);
    }
}

void abandon_leased(std::span<AppliedRule> rules) {
    const auto leased = std::ranges::find_if_not(
        rules, [](const AppliedRule &applied) { return applied.lease.taken.has_value(); });
    const auto count = static_cast<size_t>(leased - rules.begin()); // they are at the front
    give_back_leased(rules.first(count));
    count_outcomes(rules.first(count));
}

} // namespace nginx_module
