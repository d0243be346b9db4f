// The leases that a worker has fetched, and giving units back to Redis that nobody has taken.
#pragma once

#include "limiter/applied_rule.hpp"
#include "limiter/worker_log.hpp"
#include "redis_client/intrusive_list.hpp"
#include "redis_client/io/world.hpp"
#include "redis_client/link/backends.hpp"

#include <chrono>
#include <memory>

namespace limiter {

/// Units that Redis leased, at some time after `asked`, by boot_now().
struct UnusedUnits {
    uint64_t units;
    int64_t receipt;
    std::chrono::microseconds asked;
};
/// Returns the units that were taken from a lease of the rule.
UnusedUnits unused(const AppliedRule &applied, const rate_limit::LeaseBook::Taken &taken);

/// After a reload the new workers take units of a lease, if they have a rule of its quota. But
/// nobody looks at it if they have none, or if no request of its key comes. So the worker that
/// fetched it stays until its end, for rate_limit::longest_lease at most.
class HeldLeases {
  public:
    HeldLeases(redis_client::World &world, redis_client::Backends &backends, const WorkerLog &log);
    ~HeldLeases();
    HeldLeases(const HeldLeases &) = delete;
    HeldLeases &operator=(const HeldLeases &) = delete;

    /// Holds a lease of the rule until its end, which is a time of boot_now(). Then the rest is
    /// given back. Without memory, or after return_all(), it is given back when the key is asked
    /// for again, if ever.
    void hold(const AppliedRule &applied, std::chrono::microseconds end);

    /// Gives units of the rule's counter back to Redis. If its client was reset since they were
    /// leased, they expire instead: the counter does not have them any more.
    void return_units(const AppliedRule &applied, const UnusedUnits &rest);
    /// Gives back what is left of leases of the account that have ended. The worker that fetched
    /// them does so itself, unless it has ended before.
    void return_ended(const AppliedRule &applied, const rate_limit::LeaseBook::Account &account,
                      std::chrono::microseconds now);
    /// Gives back what is left of this worker's leases, because it ends.
    void return_all();

  private:
    struct Held {
        HeldLeases &owner;
        AppliedRule applied;
        redis_client::Charge charge{};
        std::chrono::microseconds end;
        std::unique_ptr<redis_client::Timer> timer{};
        redis_client::ListHook<Held> hook{};
    };

    void wait(Held &lease);
    void on_end(Held &lease);
    void let_go(Held &lease);
    void on_tick();
    void update_ticks();
    bool are_shared() const;
    bool was_reset_since(const AppliedRule &applied, std::chrono::microseconds asked) const;
    /// Gives the units back that `take_rest(account)` finds, and lets the lease go.
    template <typename TakeRest>
    void give_back(Held &lease, const TakeRest &take_rest);

    redis_client::World &world_;
    redis_client::Backends &backends_;
    const WorkerLog &log_;
    redis_client::IntrusiveList<Held, &Held::hook> held_;
    bool is_over_ = false; // the worker ends
    /// Looks whether the worker shuts down, and may keep it alive then.
    std::unique_ptr<redis_client::Timer> ticks_;
};

} // namespace limiter
