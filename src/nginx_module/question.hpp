// What a request asks of Redis: one question to each backend whose rules it meets.
#pragma once

#include "ngx.hpp"

#include "conf.hpp"

#include <optional>
#include <span>

namespace nginx_module {

class RequestState;

/// A rule as it is applied to a request, in the request's pool. A rule is applied once: SPEC
/// section 4.
struct Applied {
    enum class Result {
        verdict,    // in `charge`
        no_verdict, // `on_error` decided
        invalid,    // a variable that is no number, for which `on_error` decided
    };

    const RuleConf *rule;
    bool dry_run;
    std::string_view key; // the client's
    redis_client::Charge *charge;
    Result result;
    bool was_asked; // of Redis, which some verdicts do not need
    Applied *next;

    const rate_limit::Verdict *verdict() const {
        return result == Result::verdict ? &charge->verdict : nullptr;
    }
    bool is_tighter(const Applied &other) const { // both have a verdict
        return rate_limit::is_tighter(charge->quota, charge->verdict, other.charge->quota,
                                      other.charge->verdict);
    }
    bool denies() const {
        return result == Result::verdict &&
               charge->verdict.decision != rate_limit::Decision::granted;
    }
};

/// The rules of one backend, asked together. In the request's pool.
class Question final : public redis_client::CheckListener {
  public:
    Question(RequestState &state, Backend &backend, std::span<redis_client::Charge> charges,
             std::span<Applied> rules);

    /// False: there is no verdict, and nothing to wait for.
    bool ask();
    /// Nobody waits for the answer any more.
    void abandon();

    /// Gives back what was charged.
    void refund();
    /// Gives back the slots that the request holds, for it ends.
    void release_slots();

    /// Tells the rules where they got no verdict.
    void note_failure();

    Question *next = nullptr; // in RequestState::questions()

  private:
    void on_answer(std::optional<redis_client::Failure> failure) override;

    RequestState &state_;
    Backend &backend_;
    std::span<redis_client::Charge> charges_;
    std::span<Applied> rules_; // of the charges, in their order
    redis_client::Call *call_ = nullptr;
    std::optional<redis_client::Failure> failure_;
};

} // namespace nginx_module
