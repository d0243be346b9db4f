// A request's check at a backend: one check for all rules that can be asked together.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/http/applied_rule.hpp"
#include "redis_client/link/backend.hpp"

#include <optional>
#include <span>

namespace nginx_module {

class AbandonedCheck;
class RequestState;

/// Lives in the request's pool.
class BackendCheck final : public redis_client::CheckCallbacks {
  public:
    /// The charges are those of the rules, in their order.
    BackendCheck(RequestState &state, redis_client::Backend &backend,
                 std::span<redis_client::Charge> charges, std::span<AppliedRule> rules);

    /// Asks the backend. Returns false if that failed at once: then no answer will come.
    bool ask();
    /// Called when the request is gone and will not deal with the answer, whether it has come or
    /// not. The rules are charged and counted all the same.
    void abandon();

    /// Settles a check that was abandoned, because its request ends: now, or when it is answered.
    void settle_abandoned(ngx_http_request_t *r);
    /// Takes the answer of the check that was abandoned, to settle it when the request ends. The
    /// rules are copies of the check's.
    void take_late_answer(std::span<const AppliedRule> answered);
    /// Nothing is settled.
    void forget_heir();

    /// Gives back what was charged.
    void refund();
    /// Gives back the permits that the request holds, because it ends.
    void release_permits();

    /// Gives the rules what Redis answered. If it did not answer, they stay without a verdict.
    void take_answer();

    BackendCheck *next = nullptr; // the next one of the request's checks

  private:
    void on_answer(std::optional<redis_client::Failure> failure) override;
    std::string_view describe(std::span<char> out) const override;

    RequestState &state_;
    redis_client::Backend &backend_;
    std::span<redis_client::Charge> charges_;
    std::span<AppliedRule> rules_;
    redis_client::Command *command_ = nullptr; // null if no answer is awaited
    std::optional<redis_client::Failure> failure_;
    bool is_abandoned_ = false;
    AbandonedCheck *heir_ = nullptr; // has yet to be answered, and told what its rules cost
};

/// Makes one check for each backend, and in a cluster one for each hash slot. Returns the first of
/// a list, which BackendCheck::next links; or null if memory ran out.
BackendCheck *make_checks(ngx_http_request_t *r, RequestState &state, std::span<AppliedRule> rules);

} // namespace nginx_module
