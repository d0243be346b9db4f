// The log of a worker that nobody reads: of a replay, of tests. Who reads some of it derives from
// it.
#pragma once

#include "limiter/worker_log.hpp"
#include "redis_client/link/backend_log.hpp"

namespace limiter {

class SilentLog : public redis_client::BackendLog, public WorkerLog {
  public:
    void on_outage(std::string_view /*backend*/, std::string_view /*place*/, Cause /*cause*/,
                   const redis_client::Fault & /*fault*/, std::string_view /*checked*/) override {}
    void on_outage_end(std::string_view /*backend*/, std::string_view /*place*/, Cause /*cause*/,
                       End /*how*/, const redis_client::Outage::Summary & /*outage*/) override {}
    void on_connecting(std::string_view /*place*/) override {}
    void on_ready() override {}
    void on_lost(size_t /*pending_checks*/) override {}
    void report(LeaseEvent /*event*/, uint64_t /*units*/, int64_t /*time_us*/) const override {}
    std::string_view describe(std::span<const AppliedRule> /*rules*/,
                              std::span<char> out) const override {
        return {out.data(), 0};
    }
};

} // namespace limiter
