// A check that charges nothing and leases units, while the requests of its key still take units of
// the lease before. No request waits for it.
#pragma once

#include "limiter/applied_rule.hpp"
#include "limiter/arena.hpp"
#include "limiter/kept_units.hpp"
#include "limiter/worker.hpp"

#include <chrono>

namespace limiter {

/// Destroys itself when it is answered.
class BackgroundFetch final : public redis_client::CheckCallbacks {
  public:
    /// Asks for so many units. The rule's account is claimed: without memory the claim ends by
    /// itself.
    static void start(Worker &worker, const AppliedRule &applied,
                      const rate_limit::LeaseClaim &claim, uint64_t wanted);

  private:
    BackgroundFetch(Worker &worker, const AppliedRule &applied,
                    const rate_limit::LeaseClaim &claim);

    /// Sets what Redis is asked for. Returns false if memory ran out.
    bool prepare(uint64_t wanted);
    void ask();
    void end(Answered answered);
    void on_answer(std::optional<redis_client::Failure> failure) override;
    std::string_view describe(std::span<char> out) const override;

    Worker &worker_;
    AppliedRule applied_;
    redis_client::Charge charge_;
    redis_client::Backend &backend_;
    std::chrono::microseconds asked_; // by precise_now()
    Arena arena_;
};

} // namespace limiter
