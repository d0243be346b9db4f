// One non-blocking connection to a Redis, plain or with TLS, on nginx's event loop.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/backend/quiet_log.hpp"
#include "nginx_module/backend/tls_peer.hpp"
#include "nginx_module/conf/tls_context.hpp"
#include "redis_client/io/address.hpp"
#include "redis_client/wire/byte_queue.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

namespace nginx_module {

class Connection {
  public:
    struct Loss {
        std::string_view what;        // static text
        std::string_view detail = {}; // from OpenSSL; valid during the call
        ngx_err_t error = 0;          // the errno of the socket; 0: none
    };

    /// Learns what happens to the connection. Its functions may close the connection.
    class Callbacks {
      public:
        virtual void on_connected() = 0;
        virtual void on_bytes(std::string_view bytes) = 0;
        /// The connection has failed, and is already closed.
        virtual void on_lost(const Loss &loss) = 0;
        /// nginx wants the connection closed because the worker shuts down. close() must be called.
        virtual void on_dismissed() = 0;
        /// Returns what is to be sent. The connection removes from it what it has sent.
        virtual redis_client::ByteQueue &output() = 0;

      protected:
        ~Callbacks() = default;
    };

    /// If `tls` is null, connections are plain. `timeout` is for how long an answer is waited for.
    Connection(Callbacks &callbacks, ngx_log_t *log, const TlsContext *tls,
               std::chrono::milliseconds timeout);
    ~Connection() { close(); }
    Connection(const Connection &) = delete;
    Connection &operator=(const Connection &) = delete;

    /// Closes a connection that is open, and begins to connect. Calls on_connected() or on_lost(),
    /// perhaps before it returns. `host` is who a TLS certificate must be for.
    void open(const redis_client::Address &address, std::string_view host);
    void close(); // calls no callback

    bool is_open() const { return connection_ != nullptr; }

    enum class Stage {
        connecting,
        shaking_hands, // in the TLS handshake
        connected,     // ready to send the output
    };
    /// Returns the stage of an open connection.
    Stage stage() const { return stage_; }

    /// Sends the output at the end of this turn of the event loop, so that all commands of the turn
    /// go in one piece.
    void send_soon();
    /// Sends what there is, without waiting for the end of the turn.
    void send_now() { write(); }

    /// Reads what has come by now, even if nginx has not reported it yet. This must be done before
    /// a deadline counts as missed: timers run before posted events, and after a signal they run
    /// before nginx looks at its sockets.
    void read_now();

    /// Marks the connection as idle or busy. If it is idle, nginx calls on_dismissed() as soon as
    /// the worker shuts down.
    void set_idle(bool idle);

  private:
    void set_handlers();
    void finish_connecting();
    void watch_peer();
    void continue_handshake(TlsPeer::Handshake handshake);
    void begin();
    void read();
    void write();
    Loss broken() const;
    void lose(const Loss &loss);

    Callbacks &callbacks_;
    QuietLog log_; // keeps messages back: a fault is logged once in an outage
    const TlsContext *tls_context_;
    const std::chrono::milliseconds timeout_;
    std::unique_ptr<TlsPeer> tls_; // the TLS end of the connections to host_
    std::string host_;             // the host that was last connected to
    ngx_connection_t *connection_ = nullptr;
    Stage stage_ = Stage::connecting;
    bool is_local_ = false; // the address is a unix socket
};

} // namespace nginx_module
