// Which rules of its location apply to a request, and with what key and numbers.
#pragma once

#include "../ngx.hpp"

#include "applied_rules.hpp"

#include <span>

namespace nginx_module {

/// In the request's pool.
class ApplicableRules {
  public:
    /// Finds the rules of a phase that were not applied to the request yet; `applied` are those
    /// that were, or null. Returns NGX_OK, or NGX_ERROR if memory ran out.
    ngx_int_t find(ngx_http_request_t *r, Phase phase, const AppliedRules *applied);

    bool empty() const { return count_ == 0; }
    /// Rules whose own numbers decide: invalid ones, and limits of 0.
    std::span<AppliedRule> decided() const { return {rules_, decided_}; }
    /// Rules that it takes Redis to decide. Those that are asked together stand together.
    std::span<AppliedRule> open() const { return {rules_ + decided_, count_ - decided_}; }

  private:
    void take_last();
    ngx_int_t make_charges(ngx_pool_t *pool) const;

    AppliedRule *rules_ = nullptr;
    size_t count_ = 0;
    size_t decided_ = 0;
};

} // namespace nginx_module
