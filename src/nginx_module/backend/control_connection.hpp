// One connection of this worker to a Redis for commands that are no checks.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/backend/address_source.hpp"
#include "nginx_module/backend/connection.hpp"
#include "nginx_module/conf/configuration.hpp"
#include "redis_client/control/control_session.hpp"
#include "redis_client/link/backoff.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>

namespace nginx_module {

class ControlConnection final : Connection::Callbacks, AddressSource::Callbacks {
  public:
    using MakeAddressSource =
        std::function<std::unique_ptr<AddressSource>(AddressSource::Callbacks &)>;

    /// Implemented by the link to a cluster, of which the connection is one of several.
    class Callbacks {
      public:
        /// See ControlSession::Redirects.
        virtual bool redirect(ControlConnection &from, redis_client::ControlCommand &command,
                              const redis_client::Redirect &to) = 0;
        /// The connection has failed. Perhaps the node no longer serves its keys.
        virtual void on_fault() = 0;

      protected:
        ~Callbacks() = default;
    };

    /// Connects when a command is to be sent. If `callbacks` is null, the Redis is no node of a
    /// cluster.
    ControlConnection(const BackendConf &conf, ngx_log_t *log,
                      const MakeAddressSource &make_address_source, Callbacks *callbacks = nullptr);
    ~ControlConnection();
    ControlConnection(const ControlConnection &) = delete;
    ControlConnection &operator=(const ControlConnection &) = delete;

    /// Sends a command that has begun. It is called back later.
    void run(redis_client::ControlCommand &command);
    /// Returns whether the command was on its way here.
    bool cancel(const redis_client::ControlCommand &command);

    /// Takes a command from another node of the cluster.
    void take_over(redis_client::ControlCommand &command, redis_client::Redirect::Kind kind);
    std::string_view host() const { return address_source_->host(); }
    /// Whether nothing is going on here, so that the connection can be destroyed.
    bool is_unused() const;

  private:
    /// Asks the link for another node.
    class Redirects final : public redis_client::ControlSession::Redirects {
      public:
        explicit Redirects(ControlConnection &from) : from_(from) {}
        bool redirect(redis_client::ControlCommand &command,
                      const redis_client::Redirect &to) override {
            return from_.callbacks_->redirect(from_, command, to);
        }

      private:
        ControlConnection &from_;
    };

    void on_located() override;
    void on_not_located(std::string_view what, std::string_view detail) override;
    void on_moved() override;
    void on_connected() override;
    void on_bytes(std::string_view bytes) override;
    void on_lost(const Connection::Loss &loss) override;
    void on_dismissed() override;
    redis_client::ByteQueue &output() override { return session_.output(); }

    void connect();
    void on_ready();
    void on_connection_timer();
    void on_deadline();
    void give_up(std::string_view what, std::string_view detail,
                 std::chrono::milliseconds longest_wait = redis_client::Backoff::longest);
    void close();
    void update();

    const BackendConf &conf_;
    Callbacks *callbacks_;
    Redirects redirects_;
    redis_client::ControlSession session_;
    std::unique_ptr<AddressSource> address_source_;
    bool is_locating_ = false;
    bool is_receiving_ = false;
    Connection connection_;
    std::chrono::milliseconds ready_since_{0};
    redis_client::Backoff backoff_;

    ngx_event_t deadline_timer_{}; // the next deadline of a command
    // While the connection is being opened: when that has taken too long. While it is closed: when
    // it may be opened again. While it is idle: when it was idle for so long that it is closed.
    ngx_event_t connection_timer_{};
};

} // namespace nginx_module
