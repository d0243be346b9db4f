// A check whose client has left before the answer, and perhaps before the check was sent. It is
// charged and counted all the same, so that a client cannot avoid that by leaving at once.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/http/applied_rule.hpp"
#include "redis_client/link/backend_memory.hpp"

#include <chrono>
#include <optional>
#include <span>

namespace nginx_module {

class BackendCheck;

/// Takes the answer instead of the request. Until then it lives in a pool of its own.
class AbandonedCheck final : public redis_client::CheckCallbacks {
  public:
    /// Copies the rules and their charges. `asked` is when the check was asked, as a time of
    /// precise_now(). Returns null if memory ran out.
    static AbandonedCheck *make(std::span<const AppliedRule> rules, std::chrono::microseconds asked,
                                redis_client::WorkerCounters &counters);

    std::span<redis_client::Charge> charges() { return charges_; }

    /// The request has not ended yet: its check hears of the answer, and tells what the rules cost
    /// in the end. Null: it has ended without that.
    void set_waiting_check(BackendCheck *check) { waiting_check_ = check; }
    /// Tells what the rules cost in the end. They are settled when the check is answered.
    void settle_later(std::span<const AppliedRule> rules);

  private:
    AbandonedCheck(ngx_pool_t *pool, std::span<AppliedRule> rules,
                   std::span<redis_client::Charge> charges, std::chrono::microseconds asked,
                   redis_client::WorkerCounters &counters)
        : pool_(pool), rules_(rules), charges_(charges), asked_(asked), counters_(counters) {}

    void on_answer(std::optional<redis_client::Failure> failure) override;
    std::string_view describe(std::span<char> out) const override;

    ngx_pool_t *pool_;
    std::span<AppliedRule> rules_;
    std::span<redis_client::Charge> charges_; // the charges of rules_, in their order
    std::chrono::microseconds asked_;
    redis_client::WorkerCounters &counters_;
    BackendCheck *waiting_check_ = nullptr;
};

/// Counts the rules of a check whose request has gone. Either the check has failed, or its answer
/// is in the charges of the rules.
void count_abandoned(std::span<AppliedRule> rules, bool has_failed);

/// Gives back what such a request has taken from leases, and counts these rules.
void abandon_leased(std::span<AppliedRule> rules);

} // namespace nginx_module
