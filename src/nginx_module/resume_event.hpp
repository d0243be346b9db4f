// The event by which something that waits goes on: posted, or after a time.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/timer.hpp"

#include <chrono>

namespace nginx_module {

/// Lives in a pool with its owner, which cancels it before the pool goes.
class ResumeEvent {
  public:
    /// The event calls `resume` of the owner, which outlives it.
    template <auto resume, typename Owner>
    void set_up(Owner &owner, ngx_log_t *log) {
        event_.data = &owner;
        event_.log = log;
        event_.handler = [](ngx_event_t *event) noexcept {
            (static_cast<Owner *>(event->data)->*resume)();
        };
    }

    bool is_posted() const { return event_.posted != 0; }
    void post() {
        ngx_event_t *event = &event_;
        ngx_post_event(event, &ngx_posted_events);
    }
    /// The timer keeps a worker that leaves until it expires.
    void start(std::chrono::microseconds time) {
        start_timer(event_, std::chrono::ceil<std::chrono::milliseconds>(time));
    }
    void cancel() {
        if (event_.posted) {
            ngx_event_t *event = &event_;
            ngx_delete_posted_event(event);
        }
        stop_timer(event_);
    }

  private:
    ngx_event_t event_{};
};

} // namespace nginx_module
