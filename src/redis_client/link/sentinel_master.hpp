// The address source of a master that Sentinels watch. It asks the Sentinels in turn where the
// master is, and stays subscribed to the one that has answered.
#pragma once

#include "redis_client/control/sentinel.hpp"
#include "redis_client/io/world.hpp"
#include "redis_client/link/backoff.hpp"
#include "redis_client/link/resolved_address.hpp"
#include "redis_client/link/servers_in_turn.hpp"

#include <memory>
#include <string_view>

namespace redis_client {

class SentinelMaster final : public AddressSource, AddressSource::Callbacks, Connection::Callbacks {
  public:
    SentinelMaster(AddressSource::Callbacks &callbacks, BackendContext &context);
    SentinelMaster(const SentinelMaster &) = delete;
    SentinelMaster &operator=(const SentinelMaster &) = delete;

    void locate(std::chrono::milliseconds timeout) override;
    /// The next search begins with the next Sentinel.
    void give_up() override;
    bool use_next() override { return false; } // the Sentinels name one address

    const Address &address() const override { return master_->address(); }
    std::string_view host() const override { return endpoint_.host; }
    std::string_view text() const override;

  private:
    // These concern the address of a Sentinel, or that of the master:
    void on_located() override;
    void on_not_located(const Fault &fault) override;
    void on_moved() override {} // a ResolvedAddress never calls it

    void on_connected() override;
    void on_bytes(std::string_view bytes) override;
    void on_lost(const Fault &fault) override;
    void on_dismissed() override;
    ByteQueue &fill_output() override { return sentinel_.output(); }

    void ask();
    void listen_again();
    void ask_next(const Fault &fault);
    void listen_again_later(const Fault &fault);
    void on_master();
    void take_master();

    enum class Locating {
        nothing,
        sentinel,     // a Sentinel, to ask it where the master is
        master,       // the master, whose name a Sentinel has given
        subscription, // a Sentinel to subscribe to, while nobody waits for it
    };
    bool is_asking() const {
        return locating_ == Locating::sentinel || locating_ == Locating::subscription;
    }

    AddressSource::Callbacks &callbacks_;
    BackendContext &context_;
    ServersInTurn sentinels_;
    Locating locating_ = Locating::nothing;
    std::chrono::milliseconds timeout_{0};
    bool all_refuse_ = false; // each Sentinel of the round, so far
    Backoff refusals_;        // of subscriptions, one after another
    Sentinel sentinel_;
    std::unique_ptr<Connection> connection_;
    Endpoint endpoint_;    // the master's name or address, and port
    bool is_news_ = false; // a Sentinel has announced another master
    std::unique_ptr<ResolvedAddress> master_;
    std::unique_ptr<Timer> timer_; // when to subscribe, or when that takes too long
};

} // namespace redis_client
