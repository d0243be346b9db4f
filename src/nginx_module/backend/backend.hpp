// This worker's end of a backend, of however many servers it consists.
#pragma once

#include "../ngx.hpp"

#include "../../redis_client/session_group.hpp"
#include "../conf/configuration.hpp"

#include <span>
#include <variant>

namespace nginx_module {

class Backend {
  public:
    Backend(const Backend &) = delete;
    Backend &operator=(const Backend &) = delete;
    virtual ~Backend() = default;

    /// As Session's. The listener is told in this or a later turn of the event loop.
    virtual std::variant<redis_client::Command *, redis_client::Failure>
    ask(std::span<redis_client::Charge> charges, redis_client::CheckCallbacks &listener) = 0;
    virtual void abandon(redis_client::Command &check) = 0;
    virtual void hand_over(redis_client::Command &check, std::span<redis_client::Charge> charges,
                           redis_client::CheckCallbacks &listener) = 0;
    virtual void refund(std::span<redis_client::Charge> charges) = 0;
    virtual void release(redis_client::Permit &permit) = 0;

    WorkerCounters &counters() { return counters_; }

  protected:
    explicit Backend(const BackendConf &conf) : group_(conf.session), counters_(conf.memory) {}

    redis_client::SessionGroup group_;
    WorkerCounters counters_;
};

/// This worker's end of the backend. It is made, and connects, when it is asked for first.
Backend &backend_of(const BackendConf &conf);

/// Connects to all backends that rules use, so that the first request need not wait for that.
void start_backends(const MainConf &conf);
/// Closes all of them, because the worker ends.
void stop_backends();

} // namespace nginx_module
