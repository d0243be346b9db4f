// A check that charges nothing and leases units, while the requests of its key still take units of
// the lease before. No request waits for it.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/http/leases.hpp"

#include <chrono>

namespace nginx_module {

/// Lives in a pool of its own until it is answered.
class BackgroundFetch final : public redis_client::CheckCallbacks {
  public:
    /// Asks for so many units. The rule's account is claimed.
    static void start(const AppliedRule &applied, const rate_limit::LeaseClaim &claim,
                      uint64_t wanted);

  private:
    BackgroundFetch(ngx_pool_t *pool, const AppliedRule &applied, redis_client::Backend &backend);

    /// Sets what Redis is asked for. Returns false if memory ran out.
    bool prepare(uint64_t wanted);
    void ask();
    void end(Answered answered);
    void on_answer(std::optional<redis_client::Failure> failure) override;
    std::string_view describe(std::span<char> out) const override;

    ngx_pool_t *pool_;
    AppliedRule applied_;
    redis_client::Charge charge_;
    redis_client::Backend &backend_;
    std::chrono::microseconds asked_; // by precise_now()
};

} // namespace nginx_module
