// The log of a simulated worker, held against what a log is promised: an outage is told when it
// begins and when it ends, however many requests meet it, and in words that somebody has said; and
// what is said to work again does.
#pragma once

#include "limiter/live/live_log.hpp"
#include "limiter/silent_log.hpp"
#include "redis_client/fault.hpp"
#include "simulation/network.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace simulation {

/// Whether what is told of a fault is whole, and says no more than may be logged.
bool can_be_said(const redis_client::Fault &fault);
/// The same of why a host does not follow what operators set.
bool can_be_said(redis_client::LiveTrouble trouble, std::string_view why);

class JudgedLog final : public limiter::SilentLog {
  public:
    /// `ahead` is what the host's clock is ahead of the timeline.
    JudgedLog(Network &network, Time ahead)
        : network_(network), ahead_(ahead), began_(network.timeline.now()) {}

    /// How many outages were told.
    size_t outages() const { return begun_; }
    /// How many of them have not ended.
    size_t lasting() const { return begun_ - ended_; }
    size_t lasting(Cause cause) const { return lasting_[static_cast<size_t>(cause)]; }
    /// How many checks have failed in those that have.
    uint64_t failed_checks() const { return failed_checks_; }

    void on_outage(std::string_view backend, std::string_view place, Cause cause,
                   const redis_client::Fault &fault, std::string_view checked) override;
    void on_outage_end(std::string_view backend, std::string_view place, Cause cause, End how,
                       const redis_client::Outage::Summary &outage) override;
    /// Returns the Redis keys, with blanks between them.
    std::string_view describe(std::span<const limiter::AppliedRule> rules,
                              std::span<char> out) const override;

  private:
    void complain(const std::string &what) { network_.complaints.push_back("a log " + what); }

    void judge_clocks(std::string_view told);
    void judge_success(const std::string &place, Cause cause);

    /// What was told last at a place.
    struct Told {
        Time when{0};
        std::string fault;
        std::string checked;
    };

    Network &network_;
    Time ahead_;
    Time began_;
    size_t begun_ = 0;
    size_t ended_ = 0;
    std::array<size_t, 3> lasting_{}; // by their cause
    std::map<std::pair<std::string, Cause>, Told> told_;
    uint64_t failed_checks_ = 0;
};

/// What is said of live limits.
class JudgedLiveLog final : public limiter::LiveLog {
  public:
    explicit JudgedLiveLog(Network &network) : network_(network) {}

    /// How often it was told that all was lost that operators had set.
    size_t lost_stores() const { return lost_stores_; }

  private:
    void on_trouble(std::string_view backend, redis_client::LiveTrouble trouble,
                    std::string_view why) override;
    void on_lost_store(std::string_view /*backend*/) override { ++lost_stores_; }
    void on_no_room(std::string_view /*zone*/) override {}

    Network &network_;
    size_t lost_stores_ = 0;
};

} // namespace simulation
