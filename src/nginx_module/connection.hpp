// One non-blocking connection to a Redis, on nginx's event loop.
#pragma once

#include "ngx.hpp"

#include "../redis_client/byte_queue.hpp"

#include <string_view>

namespace nginx_module {

class Connection {
  public:
    /// What happens to the connection is told here. During a call the connection may be closed.
    class Owner {
      public:
        virtual void on_connected() = 0;
        virtual void on_bytes(std::string_view bytes) = 0;
        /// The connection is closed by now. `what` is static text; `error` is the socket's, or 0.
        virtual void on_lost(std::string_view what, ngx_err_t error) = 0;
        /// nginx asks for an idle connection back, as the worker is to leave: close() it.
        virtual void on_dismissed() = 0;
        /// What is to be sent; the connection takes off what it has sent.
        virtual redis_client::ByteQueue &output() = 0;

      protected:
        ~Owner() = default;
    };

    Connection(Owner &owner, ngx_log_t *log);
    ~Connection() { close(); }
    Connection(const Connection &) = delete;
    Connection &operator=(const Connection &) = delete;

    /// Begins to connect. The outcome comes by on_connected() or on_lost(), perhaps at once.
    void open(const ngx_addr_t &address);
    void close(); // without a word to the owner

    bool is_open() const { return connection_ != nullptr; }

    /// Sends the output at the end of this turn of the event loop, all that was asked by then in
    /// one piece.
    void send_soon();

    /// Reads what has come by now. To be done before a deadline is taken for missed: with
    /// accept_mutex on, nginx runs timers before the events that came in the same turn.
    void read();

    /// An idle connection is closed by nginx when the worker is to leave.
    void set_idle(bool idle);

  private:
    void finish_connecting();
    void write();
    void lose(std::string_view what, ngx_err_t error);

    Owner &owner_;
    ngx_log_t log_; // quiet: the owner tells of faults, once an episode
    ngx_connection_t *connection_ = nullptr;
    bool connected_ = false;
    bool local_ = false; // a unix socket
};

} // namespace nginx_module
