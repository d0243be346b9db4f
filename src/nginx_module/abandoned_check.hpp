// A check whose request has gone before its answer, and before it was sent perhaps: it is charged
// and counted all the same, so that who asks and leaves at once does not pass unseen.
#pragma once

#include "ngx.hpp"

#include "applied.hpp"

#include <chrono>
#include <optional>
#include <span>

namespace nginx_module {

/// Listens in the place of the request. Lives in memory of its own until the answer.
class AbandonedCheck final : public redis_client::CheckListener {
  public:
    /// With copies of the rules and of their charges. Null without memory: then nobody counts it.
    /// It was asked at that precise_now().
    static AbandonedCheck *make(std::span<const Applied> rules, std::chrono::microseconds asked);

    std::span<redis_client::Charge> charges() { return charges_; }

  private:
    AbandonedCheck(ngx_pool_t *pool, std::span<Applied> rules,
                   std::span<redis_client::Charge> charges, std::chrono::microseconds asked)
        : pool_(pool), rules_(rules), charges_(charges), asked_(asked) {}

    void on_answer(std::optional<redis_client::Failure> failure) override;
    std::string_view describe(std::span<char> out) const override;

    ngx_pool_t *pool_;
    std::span<Applied> rules_;
    std::span<redis_client::Charge> charges_; // of the rules, in their order
    std::chrono::microseconds asked_;
};

/// Counts rules that were asked together, and answered when no request was there to take note.
void conclude_abandoned(std::span<Applied> rules, bool has_failed);

} // namespace nginx_module
