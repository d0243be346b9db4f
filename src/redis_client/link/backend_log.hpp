// What the log hears of a backend.
#pragma once

#include "redis_client/fault.hpp"
#include "redis_client/link/outage.hpp"
#include "redis_client/session/problem.hpp"

#include <cstddef>
#include <string_view>

namespace redis_client {

/// Texts are valid during the call. A place is an address, or a name that comes from some Redis.
class BackendLog {
  public:
    using Cause = Problem::Cause;

    /// An outage begins. `checked` are the rules and keys at fault, as logs may show them.
    virtual void on_outage(std::string_view backend, std::string_view place, Cause cause,
                           const Fault &fault, std::string_view checked) = 0;
    enum class End {
        works_again,     // what failed has succeeded
        fails_no_more,   // it was not seen to fail for Outage::stale, nor to succeed
        no_longer_asked, // by this worker
    };
    virtual void on_outage_end(std::string_view backend, std::string_view place, Cause cause,
                               End how, const Outage::Summary &outage) = 0;

    // These happen to connections for checks, and concern those who look for a fault in the module.
    virtual void on_connecting(std::string_view place) = 0;
    virtual void on_ready() = 0;
    virtual void on_lost(size_t pending_checks) = 0;

  protected:
    ~BackendLog() = default;
};

} // namespace redis_client
