// The running part of a backend in one worker. The same interface serves one Redis, a master that
// Sentinels name, and a cluster.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/conf/configuration.hpp"
#include "redis_client/script/commands.hpp"
#include "redis_client/session/session_group.hpp"
#include "redis_client/session/settlements.hpp"

#include <span>
#include <variant>

namespace nginx_module {

class Backend {
  public:
    Backend(const Backend &) = delete;
    Backend &operator=(const Backend &) = delete;
    virtual ~Backend() = default;

    /// Asks Redis for all charges or none of them. Returns the check's command, and calls the
    /// callbacks in this or a later turn of the event loop; or returns why the check cannot be
    /// asked.
    virtual std::variant<redis_client::Command *, redis_client::Failure>
    ask(std::span<redis_client::Charge> charges, redis_client::CheckCallbacks &callbacks) = 0;
    /// Abandons a check whose callbacks and charges are about to go. They are not called.
    virtual void abandon(redis_client::Command &check) = 0;
    /// Gives a check other callbacks, and copies of the charges, which both live until the answer.
    /// Its permits are given back: at once if the check was sent, or else when it is answered.
    virtual void hand_over(redis_client::Command &check, std::span<redis_client::Charge> charges,
                           redis_client::CheckCallbacks &callbacks) = 0;
    /// Gives back what an answered check has charged, perhaps only when Redis can be reached again.
    virtual void refund(std::span<redis_client::Charge> charges) = 0;
    /// Settles what a request turned out to cost, or gives back what a lease has left, perhaps only
    /// when Redis can be reached again.
    virtual void settle(const redis_client::SettlementOrder &order) = 0;
    /// Gives a permit back, perhaps only when Redis can be reached again.
    virtual void release(redis_client::Permit &permit) = 0;

    /// Sends what is to be sent at once, because the worker ends.
    virtual void send_now() = 0;

    WorkerCounters &counters() { return counters_; }
    /// Whether such a check has a script of its own.
    bool has_script(std::span<const redis_client::Charge> charges) const {
        return group_.scripts.has(redis_client::shape_of(charges));
    }

    /// This worker has one more lease, or one less. While it has any, its connections stay open
    /// when it shuts down, so that it can give them back at last.
    void hold_lease() { ++group_.leases; }
    void let_lease_go() { --group_.leases; }

  protected:
    explicit Backend(const BackendConf &conf) : group_(conf.session), counters_(conf.memory) {}

    redis_client::SessionGroup group_;
    WorkerCounters counters_;
};

/// Returns the running part of the backend in this worker. The first call makes it, and begins to
/// connect.
Backend &backend_of(const BackendConf &conf);

/// Connects to all backends that rules use, so that the first request need not wait for that.
void start_backends(const MainConf &conf);
/// Closes all running backends, because the worker ends.
void stop_backends();

} // namespace nginx_module
