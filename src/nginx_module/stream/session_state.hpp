// What is known of a client's session: what the limiter knows, and what nginx has to wait for.
#pragma once

#include "nginx_module/stream/ngx.hpp"

#include "limiter/limited_request.hpp"
#include "nginx_module/stream/suspension.hpp"

#include <chrono>

namespace nginx_module::stream {

/// Lives in the pool of the session, which http or mail may take over with its connection.
class SessionState final : public limiter::Request, Suspension::Callbacks {
  public:
    /// Returns null if there is none yet.
    static SessionState *find(ngx_stream_session_t *s);
    /// Returns null if memory ran out.
    static SessionState *create(ngx_stream_session_t *s);

    explicit SessionState(ngx_stream_session_t *s) : suspension_(s, *this) {}

    limiter::LimitedRequest &limits() { return *limits_; }
    const limiter::LimitedRequest &limits() const { return *limits_; }

    enum class Stage {
        idle,
        asking,   // suspended until all checks are answered
        answered, // all checks are answered, and the phases run again
        delaying, // suspended until the delay is over
    };
    Stage stage() const { return stage_; }
    bool is_suspended() const { return stage_ == Stage::asking || stage_ == Stage::delaying; }
    /// Must be called when the answers have been dealt with.
    void set_idle() { stage_ = Stage::idle; }

    /// Suspends the session until its checks are answered, or for a time. Returns false if nginx
    /// could not watch the connection.
    bool wait_for_answers();
    bool delay(std::chrono::microseconds time);
    bool was_delayed() const { return was_delayed_; }

    /// The session is over, and its texts can still be evaluated: settles what it turned out to
    /// cost.
    void settle();
    /// Called when the pool is destroyed.
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

    void stop_waiting();
    ngx_log_t &log() const { return *suspension_.session()->connection->log; }

    Suspension suspension_;
    Stage stage_ = Stage::idle;
    limiter::LimitedRequest *limits_ = nullptr;
    bool was_delayed_ = false;
};

} // namespace nginx_module::stream
