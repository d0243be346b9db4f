// This worker's end of a backend, of however many servers it consists.
#pragma once

#include "ngx.hpp"

#include "../redis_client/session_group.hpp"
#include "conf.hpp"

#include <memory>
#include <span>
#include <variant>

namespace nginx_module {

class Backend {
  public:
    Backend(const Backend &) = delete;
    Backend &operator=(const Backend &) = delete;
    virtual ~Backend() = default;

    /// As Session's. The listener is told in this or a later turn of the event loop.
    virtual std::variant<redis_client::Call *, redis_client::Failure>
    ask(std::span<redis_client::Charge> charges, redis_client::CheckListener &listener) = 0;
    virtual void abandon(redis_client::Call &check) = 0;
    virtual void read_now(const redis_client::Call &check) = 0; // as Node's
    virtual void hand_over(redis_client::Call &check, std::span<redis_client::Charge> charges,
                           redis_client::CheckListener &listener) = 0;
    virtual void refund(std::span<redis_client::Charge> charges) = 0;
    virtual void release(redis_client::Slot &slot) = 0;

  protected:
    explicit Backend(const BackendConf &conf);

    redis_client::SessionGroup group_;
};

/// The worker's backend, made and connected on first use: at a worker's start.
Backend &backend_of(BackendConf &conf);

} // namespace nginx_module
