// A request that waits in its phase: for verdicts, or for the end of a delay. nginx's event
// handlers of such a request, and what happens when its client leaves.
#pragma once

#include "../ngx.hpp"

#include <chrono>

namespace nginx_module {

/// In the request's pool.
class Suspension {
  public:
    class Callbacks {
      public:
        /// The request's phases run again from here on.
        virtual void on_resume() = 0;
        /// The request ends, or nginx has led it elsewhere while it was suspended, as to a
        /// post_action.
        virtual void on_leave() = 0;

      protected:
        ~Callbacks() = default;
    };

    /// Which events of the client's connection end a suspended request.
    enum class Watch {
        for_reset, // it takes no answer any more
        for_end,   // it sends no more, either: as limit_req does for a request that it delays
    };

    Suspension(ngx_http_request_t *r, Callbacks &callbacks);

    /// From here to on_resume() the request only waits. Returns false if memory ran out.
    bool begin(Watch watch);
    /// Ends it in a turn of its own: a request that goes on here and now could end, and with it
    /// others, while a session still reads its replies.
    void end_soon();
    void end_after(std::chrono::microseconds time);
    /// Nothing is waited for any more.
    void cancel();

  private:
    static void watch_for_reset(ngx_http_request_t *r) noexcept;

    bool look_at_client(Watch watch);
    void resume();

    ngx_http_request_t *r_;
    Callbacks &callbacks_;
    ngx_event_t resume_{}; // posted, or on a timer
    bool cleans_up_ = false;
    /// The client has sent more, or ended its sending side, during the suspension. The event method
    /// says so once, so whoever handles the request's events afterwards is to be told.
    bool has_read_event_ = false;
};

} // namespace nginx_module
