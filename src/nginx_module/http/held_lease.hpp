// Giving leased units back to Redis that nobody has taken.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/http/applied_rule.hpp"
#include "redis_client/intrusive_list.hpp"

#include <chrono>

namespace nginx_module {

/// Units that Redis leased, at some time after `asked`, by boot_now().
struct UnusedUnits {
    uint64_t units;
    int64_t receipt;
    std::chrono::microseconds asked;
};
/// Returns the units that were taken from a lease of the rule.
UnusedUnits unused(const AppliedRule &applied, const rate_limit::LeaseBook::Taken &taken);

/// Gives units of the rule's counter back to Redis. If its client was reset since they were leased,
/// they expire instead: the counter does not have them any more.
void return_units(const AppliedRule &applied, const UnusedUnits &rest);

/// Gives back what is left of leases of the account that have ended. The worker that fetched them
/// does so itself, unless it has ended before.
void return_ended(const AppliedRule &applied, const rate_limit::LeaseBook::Account &account,
                  std::chrono::microseconds now);

/// Gives back what is left of this worker's leases, because it ends.
void return_held_leases();

/// A lease that this worker has fetched, until its end. Then the rest is given back. Lives in a
/// pool of its own.
///
/// After a reload the new workers take units of the lease, if they have a rule of its quota. But
/// nobody looks at it if they have none, or if no request of its key comes. So the worker that
/// fetched it stays until its end, for rate_limit::longest_lease at most.
class HeldLease {
  public:
    /// `end` is a time of boot_now(). Without memory the rest is given back when the next lease of
    /// the key is fetched, if ever.
    static void hold(const AppliedRule &applied, std::chrono::microseconds end);

  private:
    friend void return_held_leases();
    struct List;

    HeldLease(ngx_pool_t *pool, const AppliedRule &applied, std::chrono::microseconds end);

    static List &all();
    void wait();
    void on_timer();
    /// Gives the units back that are left, and destroys this object.
    template <typename TakeRest, typename... Arguments>
    void give_back(TakeRest take_rest, Arguments... arguments);
    void let_go();

    ngx_pool_t *pool_;
    AppliedRule applied_;
    redis_client::Charge charge_;
    std::chrono::microseconds end_;
    ngx_event_t timer_{};
    redis_client::ListHook<HeldLease> hook_; // of all that this worker holds
};

} // namespace nginx_module
