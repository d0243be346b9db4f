// The running part of a backend in one worker. The same interface serves one Redis, a master that
// Sentinels name, and a cluster.
#pragma once

#include "redis_client/control/control_session.hpp"
#include "redis_client/link/backend_context.hpp"
#include "redis_client/script/commands.hpp"
#include "redis_client/session/settlements.hpp"

#include <span>
#include <variant>

namespace redis_client {

class Backend {
  public:
    Backend(const Backend &) = delete;
    Backend &operator=(const Backend &) = delete;
    virtual ~Backend() = default;

    /// Asks Redis for all charges or none of them. Returns the check's command, and calls the
    /// callbacks in this or a later turn of the event loop; or returns why the check cannot be
    /// asked.
    virtual std::variant<Command *, Failure> ask(std::span<Charge> charges,
                                                 CheckCallbacks &callbacks) = 0;
    /// The check's request is gone. Its permits are given back: at once if the check was sent, or
    /// else when it is answered. The callbacks hear of the answer all the same.
    virtual void abandon(Command &check) = 0;
    /// Gives back what an answered check has charged, perhaps only when Redis can be reached again.
    virtual void refund(std::span<Charge> charges) = 0;
    /// Settles what a request turned out to cost, or gives back what a lease has left, perhaps only
    /// when Redis can be reached again.
    virtual void settle(const SettlementOrder &order) = 0;
    /// Gives a permit back, perhaps only when Redis can be reached again.
    virtual void release(Permit &permit) = 0;

    /// Sends a command that is no check to the Redis that serves its hash slot, and calls it back
    /// once, in a later turn of the event loop. In a cluster redirects are followed.
    virtual void run(ControlCommand &command) = 0;
    /// The command is about to go, and is not called back. Does nothing if it is not on its way.
    virtual void cancel(const ControlCommand &command) = 0;

    /// Sends what is to be sent at once, because the worker ends.
    virtual void send_now() = 0;

    WorkerCounters &counters() { return context_.counters; }
    /// Whether such a check has a script of its own.
    bool has_script(std::span<const Charge> charges) const {
        return context_.group.scripts.has(shape_of(charges));
    }

    /// This worker has one more lease, or one less. While it has any, its connections stay open
    /// when it shuts down, so that it can give them back at last.
    void hold_lease() { ++context_.group.leases; }
    void let_lease_go() { --context_.group.leases; }

  protected:
    Backend(const BackendSettings &settings, World &world, BackendLog &log)
        : context_(settings, world, log) {}

    BackendContext context_;
};

} // namespace redis_client
