// Where the master is, as the Sentinels say: asked in turn, and listened to from then on.
#pragma once

#include "../ngx.hpp"

#include "../../redis_client/sentinel.hpp"
#include "../conf/configuration.hpp"
#include "address_source.hpp"
#include "connection.hpp"
#include "resolved_address.hpp"

#include <memory>
#include <string_view>
#include <vector>

namespace nginx_module {

class SentinelMaster final : public AddressSource, AddressSource::Callbacks, Connection::Callbacks {
  public:
    SentinelMaster(AddressSource::Callbacks &owner, const BackendConf &conf, ngx_log_t *log);
    ~SentinelMaster() override;
    SentinelMaster(const SentinelMaster &) = delete;
    SentinelMaster &operator=(const SentinelMaster &) = delete;

    void locate(std::chrono::milliseconds timeout) override;
    /// The next Sentinel is asked then.
    void give_up() override;
    bool use_next() override { return false; } // the Sentinels name one address

    const Address &address() const override { return master_->address(); }
    std::string_view host() const override { return endpoint_.host; }
    std::string_view text() const override;

  private:
    // of a Sentinel's own address, or the master's
    void on_located() override;
    void on_not_located(std::string_view what, std::string_view detail) override;
    void on_moved() override {} // hosts do not tell

    void on_connected() override;
    void on_bytes(std::string_view bytes) override;
    void on_lost(const Connection::Loss &loss) override;
    void on_dismissed() override;
    redis_client::ByteQueue &output() override { return sentinel_.output(); }

    std::unique_ptr<ResolvedAddress> make_host(const ServerAddress &name);
    void ask();
    void listen_again();
    void ask_next(std::string_view what, std::string_view detail);
    void on_master();
    void take_master();

    enum class Locating {
        nothing,
        sentinel,     // that tells where the master is
        master,       // whose name was told
        subscription, // the same as a Sentinel, while nobody waits for it
    };
    bool is_asking() const {
        return locating_ == Locating::sentinel || locating_ == Locating::subscription;
    }

    AddressSource::Callbacks &owner_;
    const BackendConf &conf_;
    std::vector<std::unique_ptr<ResolvedAddress>> sentinels_;
    size_t next_ = 0;  // of the Sentinels: the one that is asked
    size_t asked_ = 0; // of them, since locate()
    Locating locating_ = Locating::nothing;
    std::chrono::milliseconds timeout_{0};
    redis_client::Sentinel sentinel_;
    Connection connection_;
    redis_client::Endpoint endpoint_; // the master
    bool is_news_ = false;            // and nobody has gone there since it was told
    std::unique_ptr<ResolvedAddress> master_;
    ngx_event_t timer_{}; // of a subscription: when to try, and when that takes too long
};

} // namespace nginx_module
