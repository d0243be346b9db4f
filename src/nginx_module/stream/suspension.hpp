// Suspends a session in its phase, until its verdicts have come or its delay has ended. Sets
// nginx's event handlers for that time, and notices a client that is gone.
#pragma once

#include "nginx_module/stream/ngx.hpp"

#include "nginx_module/resume_event.hpp"

#include <chrono>

namespace nginx_module::stream {

/// Lives in the session's pool.
class Suspension {
  public:
    class Callbacks {
      public:
        /// The suspension has ended. The phases of the session run again after this call.
        virtual void on_resume() = 0;

      protected:
        ~Callbacks() = default;
    };

    Suspension(ngx_stream_session_t *s, Callbacks &callbacks);

    ngx_stream_session_t *session() const { return s_; }

    /// Suspends the session until on_resume(). Returns false if nginx could not watch the
    /// connection.
    bool begin();
    /// Ends the suspension, by a posted event. If the session continued at once, it could end, and
    /// others with it, while a Redis session still reads its replies.
    void end_soon() { resume_.post(); }
    void end_after(std::chrono::microseconds time) { resume_.start(time); }
    /// Ends the suspension without on_resume().
    void cancel() { resume_.cancel(); }

  private:
    void resume();

    ngx_stream_session_t *s_;
    Callbacks &callbacks_;
    ResumeEvent resume_; // ends it
};

} // namespace nginx_module::stream
