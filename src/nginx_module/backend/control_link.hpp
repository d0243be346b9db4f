// This worker's connections to a backend for commands that are no checks. They are opened when a
// command is to be sent. The breaker and the counters of checks do not hear of them.
#pragma once

#include "../ngx.hpp"

#include "../../redis_client/control_session.hpp"
#include "../conf/configuration.hpp"

#include <chrono>
#include <cstdint>

namespace nginx_module {

class ControlLink {
  public:
    static constexpr std::chrono::milliseconds timeout{2000}; // of a command, from run() on

    virtual ~ControlLink() = default;
    /// Sends the command to the Redis that serves its hash slot, and calls it back once, in this or
    /// a later turn of the event loop. In a cluster redirects are followed.
    virtual void run(redis_client::ControlCommand &command) = 0;
    /// The command is about to go, and is not called back.
    virtual void cancel(redis_client::ControlCommand &command) = 0;
    /// A number that is another one after each new connection to that hash slot's Redis. 0: there
    /// is no connection.
    virtual uint64_t connection_number(uint16_t hash_slot) const = 0;
};

/// Returns this worker's link to the backend. The first call makes it.
ControlLink &control_link_of(const BackendConf &conf);

} // namespace nginx_module
