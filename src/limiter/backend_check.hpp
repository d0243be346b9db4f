// A request's check at a backend: one check for all rules that can be asked together.
#pragma once

#include "limiter/applied_rule.hpp"
#include "limiter/arena.hpp"
#include "limiter/worker.hpp"

#include <chrono>
#include <optional>
#include <span>

namespace limiter {

/// Lives in the arena of its LimitedRequest, which stays until the check is answered.
class BackendCheck final : public redis_client::CheckCallbacks {
  public:
    class Callbacks {
      public:
        /// A check is answered that waits for that, or that was abandoned.
        virtual void on_answer(BackendCheck &check, std::chrono::microseconds now) = 0;

      protected:
        ~Callbacks() = default;
    };

    /// The charges of the rules are a row, in the order of the rules.
    BackendCheck(Worker &worker, Callbacks &callbacks, std::span<AppliedRule> rules);

    /// Asks the backend. `now` is precise_now(). Returns false if that failed at once: then no
    /// answer will come.
    bool ask(std::chrono::microseconds now);
    /// Called when the request will not deal with the answer, whether it has come or not. The rules
    /// are charged and counted all the same, and denials are remembered, so that a client cannot
    /// avoid that by leaving at once.
    void abandon();
    bool is_abandoned() const { return is_abandoned_; }
    bool is_answered() const { return command_ == nullptr; }
    std::span<const AppliedRule> rules() const { return rules_; }

    /// Puts the results of the answer into the rules. Denials are remembered with the times.
    void take_answer(const rate_limit::DenyCache::CheckTimes &times);
    /// Gives back what the check has charged, because another rule rejects the request.
    void refund();
    /// Gives back the permits that the request has held, because it ends.
    void release_permits();

    BackendCheck *next = nullptr; // in a list of its owner

  private:
    void on_answer(std::optional<redis_client::Failure> failure) override;
    std::string_view describe(std::span<char> out) const override;
    void conclude_abandoned();
    std::span<redis_client::Charge> charges() const {
        return {rules_.front().charge, rules_.size()};
    }

    Worker &worker_;
    Callbacks &callbacks_;
    redis_client::Backend &backend_;
    std::span<AppliedRule> rules_;
    redis_client::Command *command_ = nullptr; // on its way; null: the check is answered
    std::chrono::microseconds asked_{0};
    std::optional<redis_client::Failure> failure_;
    bool is_abandoned_ = false;
};

/// Makes the checks of the rules, as a list: one for each backend and hash slot. Decides what they
/// lease. Returns null if memory ran out.
BackendCheck *make_checks(Worker &worker, Arena &arena, BackendCheck::Callbacks &callbacks,
                          std::span<AppliedRule> rules);

} // namespace limiter
