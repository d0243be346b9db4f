// Finds which rules of a level apply to a request, and with what key and numbers.
#pragma once

#include "limiter/applied_rules.hpp"
#include "limiter/arena.hpp"
#include "limiter/request.hpp"
#include "limiter/worker.hpp"

#include <span>

namespace limiter {

/// The rules and their charges are in the arena.
class ApplicableRules {
  public:
    ApplicableRules(Worker &worker, Request &request, Arena &arena, AppliedRules &applied)
        : worker_(worker), request_(request), arena_(arena), applied_(applied) {}

    /// Finds the rules of a phase that were not applied to the request yet. Returns false if memory
    /// ran out.
    bool find(const Level &level, rate_limit::Phase phase);

    bool empty() const { return count_ == 0; }
    /// Returns the rules that need no Redis: invalid ones, those whose own numbers decide, and
    /// those that operators decide by a ban.
    std::span<AppliedRule> decided() const { return {rules_, decided_}; }
    /// Returns the rules that Redis has to decide. Rules of one check are next to each other.
    std::span<AppliedRule> open() const { return {rules_ + decided_, count_ - decided_}; }

  private:
    enum class Evaluated : uint8_t { applies, invalid, applies_not, no_memory };

    Evaluated evaluate(AppliedRule &applied);
    Evaluated evaluate_quota(const rate_limit::Override &live, const Rule &rule,
                             rate_limit::Quota &quota);
    rate_limit::Override find_override(const AppliedRule &applied) const;
    void ban(AppliedRule &applied, const rate_limit::Override &live) const;
    bool take_if_needed();
    void take_last();
    bool keep_final_cost(const Rule &rule, AppliedRule &applied);
    bool make_charges();

    Worker &worker_;
    Request &request_;
    Arena &arena_;
    AppliedRules &applied_;
    AppliedRule *rules_ = nullptr;
    size_t count_ = 0;
    size_t decided_ = 0;
};

} // namespace limiter
