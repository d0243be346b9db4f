// The address source of a master that Sentinels watch. It asks the Sentinels in turn where the
// master is, and stays subscribed to the one that has answered.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/backend/address_source.hpp"
#include "nginx_module/backend/connection.hpp"
#include "nginx_module/backend/resolved_address.hpp"
#include "nginx_module/backend/servers_in_turn.hpp"
#include "nginx_module/conf/configuration.hpp"
#include "redis_client/control/sentinel.hpp"

#include <memory>
#include <string_view>

namespace nginx_module {

class SentinelMaster final : public AddressSource, AddressSource::Callbacks, Connection::Callbacks {
  public:
    SentinelMaster(AddressSource::Callbacks &callbacks, const BackendConf &conf, ngx_log_t *log);
    ~SentinelMaster() override;
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
    void on_not_located(std::string_view what, std::string_view detail) override;
    void on_moved() override {} // a ResolvedAddress never calls it

    void on_connected() override;
    void on_bytes(std::string_view bytes) override;
    void on_lost(const Connection::Loss &loss) override;
    void on_dismissed() override;
    redis_client::ByteQueue &output() override { return sentinel_.output(); }

    void ask();
    void listen_again();
    void ask_next(std::string_view what, std::string_view detail);
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
    const BackendConf &conf_;
    ServersInTurn sentinels_;
    Locating locating_ = Locating::nothing;
    std::chrono::milliseconds timeout_{0};
    redis_client::Sentinel sentinel_;
    Connection connection_;
    redis_client::Endpoint endpoint_; // the master's name or address, and port
    bool is_news_ = false;            // a Sentinel has announced another master
    std::unique_ptr<ResolvedAddress> master_;
    ngx_event_t timer_{}; // when to subscribe, or when that takes too long
};

} // namespace nginx_module
