// What is known of a client request: what the limiter knows, and what nginx has to wait for.
#pragma once

#include "nginx_module/http/ngx.hpp"

#include "limiter/limited_request.hpp"
#include "nginx_module/http/suspension.hpp"

#include <chrono>

namespace nginx_module {

/// Lives in the request's pool, and is found again after an internal redirect, for which nginx
/// forgets the contexts of modules.
class RequestState final : public limiter::Request, Suspension::Callbacks {
  public:
    /// Returns null if there is none yet.
    static RequestState *find(ngx_http_request_t *r);
    /// Returns null if memory ran out.
    static RequestState *create(ngx_http_request_t *r);

    explicit RequestState(ngx_http_request_t *r) : suspension_(r, *this) {}

    limiter::LimitedRequest &limits() { return *limits_; }
    const limiter::LimitedRequest &limits() const { return *limits_; }
    const limiter::AppliedRules &rules() const { return limits_->rules(); }

    enum class Stage {
        idle,
        asking,   // suspended until all checks are answered
        answered, // all checks are answered, and the phases run again
        delaying, // suspended until the delay is over
        delayed,  // the delay is over, and the phases run again
    };
    Stage stage() const { return stage_; }
    /// Must be called when the answers or the end of the delay have been dealt with.
    void set_idle() { stage_ = Stage::idle; }

    /// Suspends the request until its checks are answered, or for a time. Returns false if memory
    /// ran out.
    bool wait_for_answers();
    bool delay(std::chrono::microseconds time);
    bool was_delayed() const { return was_delayed_; }
    /// Stops waiting, because what was asked no longer matters to the request.
    void abandon();
    /// Called when the request's pool is destroyed.
    void end();

  private:
    std::optional<std::string_view> key(const limiter::Zone &zone) override;
    std::optional<std::string_view> text(const limiter::Rule &rule,
                                         limiter::RuleText which) override;
    std::string_view address() override;
    void on_answered() override { suspension_.end_soon(); }
    void report(const limiter::InvalidNumber &invalid) override;
    void report_dry_run(const limiter::AppliedRule &rule) override;
    void report(limiter::RequestEvent event, int64_t number) override;

    void on_resume() override;
    void on_leave() override { abandon(); }

    Suspension suspension_;
    Stage stage_ = Stage::idle;
    limiter::LimitedRequest *limits_ = nullptr;
    bool was_delayed_ = false;
};

} // namespace nginx_module
