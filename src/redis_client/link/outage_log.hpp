// Logs when an outage of a backend begins, and when it ends.
#pragma once

#include "redis_client/io/world.hpp"
#include "redis_client/link/backend_log.hpp"
#include "redis_client/link/outage.hpp"

#include <cstdint>
#include <string_view>

namespace redis_client {

class OutageLog {
  public:
    OutageLog(std::string_view backend, Problem::Cause cause, World &world, BackendLog &log)
        : backend_(backend), cause_(cause), world_(world), log_(log) {}

    /// Records a fault at `place`, and how many checks got no verdict by it. Logs it if an outage
    /// begins. `checked` is as in BackendLog.
    void fail(const Fault &fault, std::string_view place, uint64_t failed_checks,
              std::string_view checked = {});
    /// Records more checks without a verdict in an outage that lasts.
    void fail(uint64_t failed_checks);

    /// Records a success at `place`. Logs the end of the outage if it ends by that.
    void succeed(std::string_view place);
    /// Logs that nothing fails any more, if an outage lasts that is stale. Returns whether it did.
    bool forget(std::string_view place);
    /// Logs that the Redis at `place` is no longer asked, if an outage lasts. So many checks have
    /// failed by that.
    void leave(std::string_view place, uint64_t failed_checks = 0);

    bool is_lasting() const { return outage_.is_lasting(); }
    Problem::Cause cause() const { return cause_; }

  private:
    std::string_view backend_;
    Problem::Cause cause_;
    World &world_;
    BackendLog &log_;
    Outage outage_;
};

} // namespace redis_client
