// Suspends a request in its phase, until its verdicts have come or its delay has ended. Sets
// nginx's event handlers for that time, and handles a client that leaves.
#pragma once

#include "nginx_module/http/ngx.hpp"

#include "nginx_module/resume_event.hpp"

#include <chrono>

namespace nginx_module {

/// Lives in the request's pool.
class Suspension {
  public:
    class Callbacks {
      public:
        /// The suspension has ended. The phases of the request run again after this call.
        virtual void on_resume() = 0;
        /// The request ends, or nginx has led it elsewhere while it was suspended, for example to a
        /// post_action.
        virtual void on_leave() = 0;

      protected:
        ~Callbacks() = default;
    };

    /// Which events of the client's connection end a suspended request.
    enum class Watch {
        for_reset, // the connection takes no answer any more
        for_end,   // also if the client sends no more, as limit_req does for a delayed request
    };

    Suspension(ngx_http_request_t *r, Callbacks &callbacks);

    ngx_http_request_t *request() const { return r_; }

    /// Suspends the request until on_resume(). Returns false if that failed, as without memory.
    bool begin(Watch watch);
    /// Ends the suspension, by a posted event. If the request continued at once, it could end, and
    /// others with it, while a session still reads its replies.
    void end_soon() { resume_.post(); }
    void end_after(std::chrono::microseconds time) { resume_.start(time); }
    /// Ends the suspension without on_resume().
    void cancel() { resume_.cancel(); }

  private:
    static void leave(void *self) noexcept;
    static Suspension *find(ngx_http_request_t *r);
    static void watch_for_reset(ngx_http_request_t *r) noexcept;

    bool look_at_client(Watch watch);
    void resume();

    ngx_http_request_t *r_;
    Callbacks &callbacks_;
    ResumeEvent resume_; // ends it
    bool cleans_up_ = false;
    /// Whether the client has sent more, or ended its sending side, during the suspension. The
    /// event method reports that once, so the event is posted again when the request resumes.
    bool has_read_event_ = false;
};

} // namespace nginx_module
