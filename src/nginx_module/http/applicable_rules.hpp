// Finds which rules of its location apply to a request, and with what key and numbers.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/http/applied_rules.hpp"

#include <span>

namespace nginx_module {

/// The rules and their charges are in the request's pool.
class ApplicableRules {
  public:
    /// Finds the rules of a phase that were not applied to the request yet. `applied` has those
    /// that were, or is null. Returns NGX_OK, or NGX_ERROR if memory ran out.
    ngx_int_t find(ngx_http_request_t *r, Phase phase, AppliedRules *applied);

    bool empty() const { return count_ == 0; }
    /// Returns the rules that need no Redis: invalid ones, those whose own numbers decide, and
    /// those that operators decide by a ban.
    std::span<AppliedRule> decided() const { return {rules_, decided_}; }
    /// Returns the rules that Redis has to decide. Rules of one check are next to each other.
    std::span<AppliedRule> open() const { return {rules_ + decided_, count_ - decided_}; }

  private:
    /// Takes the rule behind the last one that was taken, unless it is needless to apply it.
    /// Returns false if memory ran out.
    bool take_if_needed(ngx_pool_t *pool, AppliedRules *applied);
    void take_last();
    ngx_int_t make_charges(ngx_pool_t *pool) const;

    AppliedRule *rules_ = nullptr;
    size_t count_ = 0;
    size_t decided_ = 0;
};

} // namespace nginx_module
