// The log of a simulated worker, held against what a log is promised: an outage is told when it
// begins and when it ends, however many requests meet it.
#pragma once

#include "limiter/silent_log.hpp"
#include "simulation/network.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace simulation {

class JudgedLog final : public limiter::SilentLog {
  public:
    explicit JudgedLog(Network &network) : network_(network), began_(network.timeline.now()) {}

    /// How many outages were told.
    size_t outages() const { return begun_; }
    /// How many of them have not ended.
    size_t lasting() const { return begun_ - ended_; }
    /// How many checks have failed in those that have.
    uint64_t failed_checks() const { return failed_checks_; }

    void on_outage(std::string_view /*backend*/, std::string_view place,
                   const redis_client::Fault &fault, std::string_view /*checked*/) override {
        ++begun_;
        // A server may be out of reach, have keys of other types, and have its clocks apart, each
        // for itself; and there is what concerns a whole cluster.
        const size_t most = 3 * network_.servers.size() + 1;
        if (lasting() > most) {
            complain("tells of an outage that lasts: " + std::string(fault.what) + " at " +
                     std::string(place));
        }
    }
    void on_outage_end(std::string_view /*backend*/, std::string_view place, End /*how*/,
                       const redis_client::Outage::Summary &outage) override {
        if (lasting() == 0) {
            complain("tells the end of no outage at " + std::string(place));
            return;
        }
        ++ended_;
        failed_checks_ += outage.failed_checks;
        const Time age = network_.timeline.now() - began_;
        if (outage.lasted.count() < 0 ||
            outage.lasted > std::chrono::ceil<std::chrono::milliseconds>(age)) {
            complain("tells that an outage lasted " + std::to_string(outage.lasted.count()) +
                     " ms");
        }
    }

  private:
    void complain(const std::string &what) { network_.complaints.push_back("a log " + what); }

    Network &network_;
    Time began_;
    size_t begun_ = 0;
    size_t ended_ = 0;
    uint64_t failed_checks_ = 0;
};

} // namespace simulation
