// This worker's connections to a backend for commands that are no checks. They are opened when a
// command is to be sent, and closed when there was none for a while. The breaker, the counters of
// checks and the log do not hear of them: whoever asks is told what fails.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/conf/configuration.hpp"
#include "redis_client/control/control_session.hpp"

namespace nginx_module {

class ControlLink {
  public:
    ControlLink() = default;
    ControlLink(const ControlLink &) = delete;
    ControlLink &operator=(const ControlLink &) = delete;
    virtual ~ControlLink() = default;

    /// Sends the command to the Redis that serves its hash slot, and calls it back once, in a later
    /// turn of the event loop. In a cluster redirects are followed.
    virtual void run(redis_client::ControlCommand &command) = 0;
    /// The command is about to go, and is not called back. Does nothing if it is not on its way.
    virtual void cancel(const redis_client::ControlCommand &command) = 0;
};

/// Returns this worker's link to the backend. The first call makes it.
ControlLink &control_link_of(const BackendConf &conf);

/// Closes all links, because the worker ends. Commands on their way are not called back.
void stop_control_links();

} // namespace nginx_module
