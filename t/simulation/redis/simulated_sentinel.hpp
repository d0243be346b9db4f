// A Sentinel of a simulation: it says who it believes the master is.
#pragma once

#include "simulation/fault_counts.hpp"
#include "simulation/redis/server.hpp"

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace simulation {

class SimulatedSentinel final : public Server {
  public:
    static constexpr std::string_view master_name = "fleet";

    struct Access {
        std::string username;
        std::string password; // empty: none is wanted
    };

    SimulatedSentinel(FaultCounts &counts, std::string address, Access access, std::string master)
        : Server(std::move(address)),
          counts_(counts),
          access_(std::move(access)),
          master_(std::move(master)) {}

    std::string take(Peer &peer, std::string_view bytes) override;

    const std::string &master() const { return master_; }
    /// It believes so from now on. Returns what it tells those who have subscribed.
    std::string hear(const std::string &master);
    /// It has forgotten all masters, or remembers them again.
    void set_forgetful(bool is_forgetful) { is_forgetful_ = is_forgetful; }
    /// It answers with errors, or no longer.
    void set_unable(bool is_unable) { is_unable_ = is_unable; }

  private:
    std::string reply(Peer &peer, std::span<const std::string_view> words);

    FaultCounts &counts_;
    Access access_;
    std::string master_;
    bool is_forgetful_ = false;
    bool is_unable_ = false;
};

} // namespace simulation
