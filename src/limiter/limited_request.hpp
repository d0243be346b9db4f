// The road of a request through its rules: find the rules that apply → decide those that this host
// decides alone → ask Redis for the others → take its answers → settle what the request turned out
// to cost when it ends.
#pragma once

#include "limiter/applicable_rules.hpp"
#include "limiter/applied_rules.hpp"
#include "limiter/arena.hpp"
#include "limiter/backend_check.hpp"
#include "limiter/decision.hpp"
#include "limiter/request.hpp"
#include "limiter/worker.hpp"

#include <chrono>
#include <span>

namespace limiter {

/// What is to be done with a request now.
struct Step {
    enum class Kind : uint8_t {
        pass,
        wait,      // until Request::on_answered() is called
        hold_back, // for the delay of decision.delaying, and then it passes
        reject,
        no_memory,
    };

    Kind kind = Kind::pass;
    RequestDecision decision{};
};

/// It outlives the request for as long as a check of it waits for its answer: it is charged and
/// counted all the same.
class LimitedRequest final : BackendCheck::Callbacks {
  public:
    /// `worker` outlives it, and `request` has to until end(). Returns null if memory ran out.
    static LimitedRequest *create(Worker &worker, Request &request);
    LimitedRequest(const LimitedRequest &) = delete;
    LimitedRequest &operator=(const LimitedRequest &) = delete;

    /// Applies the rules of the level and the phase that were not applied yet.
    Step apply(const Level &level, rate_limit::Phase phase);
    /// Decides by the answers that the request waited for.
    Step take_answers();
    /// Stops waiting, because what was asked no longer matters to the request.
    void abandon();

    /// Called when the request ends, and its texts can still be evaluated. Stops waiting, and
    /// settles what it turned out to cost, unless it was rejected: now, or when the last of its
    /// checks is answered.
    void settle();
    /// The request is gone, and so is this object if no check waits. Stops waiting, and gives back
    /// all permits.
    void end();

    const AppliedRules &rules() const { return rules_; }
    bool is_rejected() const { return is_rejected_; }
    /// Returns when the checks were asked and answered, as times of precise_now().
    const rate_limit::DenyCache::CheckTimes &check_times() const { return check_times_; }
    /// Returns how long the request has waited for verdicts, in all phases.
    std::chrono::microseconds time_asking() const { return time_asking_; }

  private:
    LimitedRequest(Worker &worker, Request &request) : worker_(worker), request_(&request) {}
    ~LimitedRequest() = default;

    Step ask_redis(std::span<AppliedRule> rules);
    Step ask(BackendCheck *checks, std::span<AppliedRule> rules, std::chrono::microseconds now);
    RequestDecision decide_and_record(std::span<AppliedRule> rules);
    Step step_of(const RequestDecision &decision);
    void on_answer(BackendCheck &check, std::chrono::microseconds now) override;
    void keep_checks();
    void settle_charges();
    void destroy_if_unused();

    Worker &worker_;
    Request *request_; // null: it has ended
    AppliedRules rules_;
    BackendCheck *checks_ = nullptr;         // that the request waits for
    BackendCheck *earlier_checks_ = nullptr; // of earlier phases and locations
    size_t unanswered_ = 0;                  // of the checks that the request waits for
    size_t abandoned_ = 0; // checks that nobody waits for, and that are unanswered
    bool is_rejected_ = false;
    bool is_over_ = false; // its final costs have been read
    rate_limit::DenyCache::CheckTimes check_times_{};
    std::chrono::microseconds time_asking_{0};
    Arena arena_;
};

} // namespace limiter
