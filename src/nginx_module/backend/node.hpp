// One Redis of a backend: this worker's connection to it, the checks on it, and what happens when
// it fails.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/backend/address_source.hpp"
#include "nginx_module/backend/connection.hpp"
#include "nginx_module/backend/outage_log.hpp"
#include "nginx_module/conf/configuration.hpp"
#include "redis_client/link/backoff.hpp"
#include "redis_client/session/session.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <variant>

namespace nginx_module {

class Node final : Connection::Callbacks, AddressSource::Callbacks {
  public:
    using MakeAddressSource =
        std::function<std::unique_ptr<AddressSource>(AddressSource::Callbacks &)>;

    /// Implemented by the cluster that a node is part of.
    class Callbacks : public redis_client::Redirects {
      public:
        /// The connection or a check has failed. Perhaps the node no longer serves its keys.
        virtual void on_fault() = 0;

      protected:
        ~Callbacks() = default;
    };

    /// Begins to connect at once. If `callbacks` is null, the node is not part of a cluster.
    Node(const BackendConf &conf, redis_client::SessionGroup &group,
         redis_client::WorkerCounters &counters, ngx_log_t *log,
         const MakeAddressSource &make_address_source, Callbacks *callbacks = nullptr);
    ~Node();
    Node(const Node &) = delete;
    Node &operator=(const Node &) = delete;

    /// These six functions do what Backend says of them, at this one Redis.
    std::variant<redis_client::Command *, redis_client::Failure>
    ask(std::span<redis_client::Charge> charges, redis_client::CheckCallbacks &callbacks);
    void abandon(redis_client::Command &check);
    void hand_over(redis_client::Command &check, std::span<redis_client::Charge> charges,
                   redis_client::CheckCallbacks &callbacks);
    void refund(std::span<redis_client::Charge> charges);
    void settle(const redis_client::SettlementOrder &order);
    void send_now();
    void release(redis_client::Permit &permit);

    /// Takes a command, permits or settlements from another node of the cluster.
    void take_over(redis_client::Command &call, redis_client::Redirect::Kind kind);
    void take_permits(const redis_client::HashSlotSet &of, Node &from);
    void take_settlements(const redis_client::HashSlotSet &of, redis_client::Session &from);
    const redis_client::Session &session() const { return session_; }
    redis_client::Session &session() { return session_; }
    std::string_view host() const { return address_source_->host(); }

    /// Must be called before a node is destroyed that is no longer asked. Logs the end of its
    /// outage.
    void retire();

  private:
    void on_located() override;
    void on_not_located(std::string_view what, std::string_view detail) override;
    void on_moved() override;
    void on_connected() override;
    void on_bytes(std::string_view bytes) override;
    void on_lost(const Connection::Loss &loss) override;
    void on_dismissed() override;
    redis_client::ByteQueue &output() override;

    void connect();
    void connect_if_dismissed();
    void give_up(const Fault &fault,
                 std::chrono::milliseconds longest_wait = redis_client::Backoff::longest);
    void on_ready();
    void on_deadline();
    void on_connection_timer();
    bool is_needed() const;
    bool has_served() const;
    void disconnected(redis_client::Session::Lost lost,
                      std::chrono::milliseconds longest_wait = redis_client::Backoff::longest);
    void update_after_event();
    void report_loss();
    void update_unless_receiving();
    void set_deadline_timer();

    std::string_view stage() const;
    void report_key_failures();
    void begin_outage(const Fault &fault);
    void end_outage();
    bool has_lasting_faults() const { return faults_.is_lasting() || key_faults_.is_lasting(); }

    const BackendConf &conf_;
    redis_client::WorkerCounters &counters_;
    ngx_log_t *log_;
    Callbacks *callbacks_;
    redis_client::Session session_;
    std::unique_ptr<AddressSource> address_source_;
    bool is_locating_ = false;
    Connection connection_;
    bool is_counted_ready_ = false;            // the shared memory counts it as ready
    std::chrono::milliseconds ready_since_{0}; // 0: it was never ready
    redis_client::Backoff backoff_;
    OutageLog faults_;
    OutageLog key_faults_; // apart from faults_, because a bad key may be asked for all the time
    bool is_receiving_ = false;
    bool needs_verdict_ = false;      // only a verdict ends the outage: Redis answers with errors
    redis_client::Counters reported_; // the session's counters as far as they are logged

    ngx_event_t deadline_timer_{};
    // When it expires while the node connects, that has taken too long. When it expires while the
    // node is disconnected, it is time to try again. When it expires while the node is ready again
    // after a fault, it has been quiet long enough to end the outage.
    ngx_event_t connection_timer_{};
};

} // namespace nginx_module
