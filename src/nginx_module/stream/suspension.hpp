// Suspends a session in its phase, until its verdicts have come or its delay has ended. Sets
// nginx's event handler for what the client sends in that time, and notices a client that is gone.
#pragma once

#include "nginx_module/stream/ngx.hpp"

#include "nginx_module/resume_event.hpp"

#include <chrono>

namespace nginx_module::stream {

/// Lives in the session's pool.
class Suspension {
  public:
    explicit Suspension(ngx_stream_session_t *s);

    ngx_stream_session_t *session() const { return s_; }

    /// Suspends the session: its phases run again after end_soon() or end_after(). Returns false if
    /// nginx could not watch the connection.
    bool begin();
    /// Ends the suspension, by a posted event. If the session continued at once, it could end, and
    /// others with it, while a Redis session still reads its replies.
    void end_soon() { resume_.post(); }
    void end_after(std::chrono::microseconds time) { resume_.start(time); }
    /// No phase runs again by it.
    void cancel() { resume_.cancel(); }

  private:
    void resume();

    ngx_stream_session_t *s_;
    ResumeEvent resume_; // ends it
};

} // namespace nginx_module::stream
