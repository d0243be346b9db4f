// One non-blocking connection to a Redis, plain or by TLS, on nginx's event loop.
#pragma once

#include "../ngx.hpp"

#include "../../redis_client/byte_queue.hpp"
#include "../conf/address.hpp"
#include "quiet_log.hpp"
#include "tls_peer.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace nginx_module {

class Connection {
  public:
    struct Loss {
        std::string_view what;        // static text
        std::string_view detail = {}; // of TLS; valid during the call
        ngx_err_t error = 0;          // the socket's
    };

    /// What happens to the connection is told here. During a call the connection may be closed.
    class Callbacks {
      public:
        virtual void on_connected() = 0;
        virtual void on_bytes(std::string_view bytes) = 0;
        /// The connection is closed by now.
        virtual void on_lost(const Loss &loss) = 0;
        /// nginx asks for an idle connection back, as the worker is to leave: close() it.
        virtual void on_dismissed() = 0;
        /// What is to be sent; the connection takes off what it has sent.
        virtual redis_client::ByteQueue &output() = 0;

      protected:
        ~Callbacks() = default;
    };

    /// Without `tls` connections are plain.
    Connection(Callbacks &owner, ngx_log_t *log, const TlsContext *tls);
    ~Connection() { close(); }
    Connection(const Connection &) = delete;
    Connection &operator=(const Connection &) = delete;

    /// Begins to connect, in the place of a connection that is open. The outcome comes by
    /// on_connected() or on_lost(), perhaps at once. `host` is who a certificate is to be of.
    void open(const Address &address, std::string_view host);
    void close(); // without a word to the owner

    bool is_open() const { return connection_ != nullptr; }

    enum class Stage {
        connecting,
        shaking_hands, // of TLS
        connected,     // ready for what the owner has to send
    };
    /// Of an open connection.
    Stage stage() const { return stage_; }

    /// Sends the output at the end of this turn of the event loop, all that was asked by then in
    /// one piece.
    void send_soon();

    /// Reads what has come by now, of which nginx may not have told yet. To be done before a
    /// deadline is taken for missed: timers run before what is posted, and after a signal before
    /// nginx looks at its sockets.
    void read_now();

    /// An idle connection is closed by nginx when the worker is to leave.
    void set_idle(bool idle);

  private:
    void set_handlers();
    void finish_connecting();
    void go_on(TlsPeer::Handshake handshake);
    void begin();
    void read();
    void write();
    Loss broken() const;
    void lose(const Loss &loss);

    Callbacks &owner_;
    QuietLog log_; // the owner tells of faults, once an outage
    const TlsContext *tls_context_;
    std::unique_ptr<TlsPeer> tls_; // of the host that was last connected to
    std::string host_;
    ngx_connection_t *connection_ = nullptr;
    Stage stage_ = Stage::connecting;
    bool is_local_ = false; // a unix socket
};

} // namespace nginx_module
