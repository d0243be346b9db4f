// What is known of a client request: the rules that were applied to it, and what it waits for.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/http/applied_rules.hpp"
#include "nginx_module/http/backend_check.hpp"
#include "nginx_module/http/suspension.hpp"

#include <chrono>
#include <span>

namespace nginx_module {

/// Lives in the request's pool, and is found again after an internal redirect, for which nginx
/// forgets the contexts of modules.
class RequestState final : Suspension::Callbacks {
  public:
    /// Returns null if no rule was applied yet.
    static RequestState *find(ngx_http_request_t *r);
    /// Returns null if memory ran out.
    static RequestState *create(ngx_http_request_t *r);

    explicit RequestState(ngx_http_request_t *r) : suspension_(r, *this) {}

    enum class Stage {
        idle,
        asking,   // suspended until all checks are answered
        answered, // all checks are answered, and the phases run again
        delaying, // suspended until the delay is over
        delayed,  // the delay is over, and the phases run again
    };
    Stage stage() const { return stage_; }

    /// Asks all checks of a list, and suspends the request if it has to wait for answers. `now` is
    /// precise_now(). Returns NGX_OK if all checks are answered or have failed, NGX_AGAIN if the
    /// request is suspended, or NGX_ERROR if memory ran out.
    ngx_int_t ask(BackendCheck *checks, std::span<AppliedRule> rules,
                  std::chrono::microseconds now);
    /// Returns the list of checks that were asked last.
    BackendCheck *checks() { return checks_; }
    /// Returns when they were asked and answered, as times of precise_now().
    const rate_limit::DenyCache::CheckTimes &check_times() const { return check_times_; }

    /// Suspends the request for a time. Returns false if memory ran out.
    bool delay(std::chrono::microseconds time);

    /// Must be called when the answers or the end of the delay have been dealt with.
    void set_idle();
    /// Stops waiting, because what was asked no longer matters to the request.
    void abandon();
    /// Called when the request ends. Settles what it turned out to cost, unless it was rejected.
    void settle();
    /// Called when the request's pool is destroyed. Stops waiting, and gives back all permits.
    void end();

    AppliedRules &rules() { return rules_; }
    const AppliedRules &rules() const { return rules_; }
    Suspension &suspension() { return suspension_; }

    void set_rejected() { is_rejected_ = true; }
    bool is_rejected() const { return is_rejected_; }
    bool was_delayed() const { return was_delayed_; }
    /// Returns how long the request has waited for verdicts, in all phases.
    std::chrono::microseconds time_asking() const { return time_asking_; }

  private:
    friend class BackendCheck;

    void settle_charges();
    void on_answer(std::chrono::microseconds now);
    void on_resume() override;
    void on_leave() override { abandon(); }

    Suspension suspension_;
    Stage stage_ = Stage::idle;
    AppliedRules rules_;
    BackendCheck *checks_ = nullptr;
    BackendCheck *earlier_checks_ = nullptr; // checks of earlier phases and locations
    size_t unanswered_ = 0;
    bool is_rejected_ = false;
    bool was_delayed_ = false;
    rate_limit::DenyCache::CheckTimes check_times_{};
    std::chrono::microseconds time_asking_{0};
};

} // namespace nginx_module
