// A link to one Redis: where it is, the connection to it, and when the next connection is opened.
// What goes over the connection is up to the two kinds of links: checks, or control commands.
#pragma once

#include "redis_client/io/world.hpp"
#include "redis_client/link/address_source.hpp"
#include "redis_client/link/backend_context.hpp"
#include "redis_client/link/backoff.hpp"
#include "redis_client/session/login.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>

namespace redis_client {

class Link : Connection::Callbacks, AddressSource::Callbacks {
  public:
    using MakeAddressSource =
        std::function<std::unique_ptr<AddressSource>(AddressSource::Callbacks &)>;

    Link(const Link &) = delete;
    Link &operator=(const Link &) = delete;

    std::string_view host() const { return address_source_->host(); }

  protected:
    /// `answer_timeout` is for how long an answer is waited for.
    Link(BackendContext &context, std::chrono::milliseconds answer_timeout,
         const MakeAddressSource &make_address_source);
    ~Link() = default;

    // What differs between the kinds of links:

    /// The connection is open: the login begins.
    virtual void begin_session() = 0;
    virtual SessionProgress receive(std::string_view bytes) = 0;
    /// Why the session is of no use.
    virtual Fault problem() const = 0;
    /// Whether the login is done.
    virtual bool is_ready() const = 0;
    /// The connection has just become ready. Meanwhile ready_since_ is when the one before did.
    virtual void on_ready() = 0;
    /// The connection was ready, and nothing has failed, since the timer was started by
    /// start_quiet_timer().
    virtual void on_quiet() = 0;
    /// Ends an attempt to connect that has failed, or a connection that is of no use.
    virtual void give_up(const Fault &fault) = 0;
    /// Whether the next connection is to be opened as soon as that may be.
    virtual bool is_wanted() const = 0;
    virtual void on_deadline() = 0;
    /// Must be called after every call of the session.
    virtual void update() = 0;
    virtual void on_connecting() {}
    /// Returns what a connection that is not ready is doing, if faults say that.
    virtual std::string_view stage() const { return {}; }

    void connect();
    /// Whether there is no connection, none is being opened, and none will be opened after a wait.
    bool is_at_rest() const {
        return !connection_->is_open() && !is_locating_ && !connection_timer_->is_running();
    }
    /// Tries the next address that the Redis may have. Returns false if there is none.
    bool try_next_address();
    /// Whether the connection was ready for a while. Then it may be replaced at once, by one to the
    /// same address. A connection that fails at once, or breaks again and again, must not be
    /// replaced in a loop without a wait.
    bool has_served() const;
    /// Lets the timer open the next connection, at once or after a wait.
    void connect_again(bool at_once, std::chrono::milliseconds longest_wait = Backoff::longest);
    void connect_at_once() { connection_timer_->start(std::chrono::milliseconds{0}); }
    void close(); // or ends an attempt to connect
    void start_quiet_timer(std::chrono::milliseconds time) { connection_timer_->start(time); }

    BackendContext &context_;
    std::unique_ptr<AddressSource> address_source_;
    bool is_locating_ = false;
    bool is_in_session_ = false; // which may call back whoever waits, and they use the link
    std::unique_ptr<Connection> connection_;
    std::chrono::milliseconds ready_since_{0}; // 0: it was never ready
    Backoff backoff_;
    std::unique_ptr<Timer> deadline_timer_;
    // When it expires while the link connects, that has taken too long. When it expires while the
    // link is disconnected, it is time to try again. When it expires while the link is ready, the
    // link has been quiet for long enough.
    std::unique_ptr<Timer> connection_timer_;

  private:
    void on_located() override;
    void on_not_located(const Fault &fault) override;
    void on_connected() override;
    void on_bytes(std::string_view bytes) override;
    void become_ready();
    void on_connection_timer();
};

} // namespace redis_client
