// The link to one Redis for commands that are no checks. It is opened when a command is to be sent,
// and closed when there was none for a while. The breaker, the counters of checks and the log do
// not hear of it: whoever asks is told what fails.
#pragma once

#include "redis_client/control/control_session.hpp"
#include "redis_client/link/link.hpp"

#include <chrono>

namespace redis_client {

class ControlLink final : public Link {
  public:
    /// Implemented by the cluster that the Redis is part of.
    class Callbacks : public ControlSession::Redirects {
      public:
        /// The connection has failed. Perhaps the node no longer serves its keys.
        virtual void on_fault() = 0;

      protected:
        ~Callbacks() = default;
    };

    /// If `callbacks` is null, the Redis is not part of a cluster.
    ControlLink(BackendContext &context, const MakeAddressSource &make_address_source,
                Callbacks *callbacks = nullptr,
                size_t longest_reply = ControlSession::usual_longest_reply);
    ~ControlLink() = default;

    /// Sends a command that has begun. It is called back later.
    void run(ControlCommand &command);
    /// Returns whether the command was on its way here.
    bool cancel(const ControlCommand &command);

    /// Takes a command from another node of the cluster.
    void take_over(ControlCommand &command, Redirect::Kind kind);
    const ControlSession &session() const { return session_; }

    /// Closes the connection without a fault. The next one may be opened at once, and perhaps to
    /// another address.
    void hang_up();

  private:
    void begin_session() override { session_.connected(); }
    SessionProgress receive(std::string_view bytes) override { return session_.received(bytes); }
    Fault problem() const override { return session_.problem(); }
    bool is_ready() const override { return session_.is_ready(); }
    void on_ready() override { connection_timer_->stop(); }
    void on_quiet() override { hang_up(); }
    void give_up(const Fault &fault) override;
    bool is_wanted() const override { return session_.has_waiting(); }
    void on_deadline() override;
    void update() override;

    void on_moved() override;
    void on_lost(const Fault &fault) override;
    void on_dismissed() override { hang_up(); }
    ByteQueue &fill_output() override { return session_.output(); }

    Callbacks *callbacks_;
    ControlSession session_;
};

} // namespace redis_client
