// One connection to a Redis or a Sentinel, plain or with TLS, which does not block.
#pragma once

#include "redis_client/fault.hpp"
#include "redis_client/io/address.hpp"
#include "redis_client/wire/byte_queue.hpp"

#include <string_view>

namespace redis_client {

/// Is open or closed, and may be opened many times. It is closed when it is destroyed.
class Connection {
  public:
    /// Learns what happens to the connection. Its functions may close the connection.
    class Callbacks {
      public:
        virtual void on_connected() = 0;
        virtual void on_bytes(std::string_view bytes) = 0;
        /// The connection has failed, and is already closed. The texts are valid during the call.
        virtual void on_lost(const Fault &fault) = 0;
        /// The connection has to be closed because the worker shuts down. close() must be called.
        virtual void on_dismissed() = 0;
        /// Writes what is to be sent, and returns it. The connection removes from it what it has
        /// sent.
        virtual ByteQueue &fill_output() = 0;

      protected:
        ~Callbacks() = default;
    };

    Connection() = default;
    Connection(const Connection &) = delete;
    Connection &operator=(const Connection &) = delete;
    virtual ~Connection() = default;

    /// Closes a connection that is open, and begins to connect. Calls on_connected() or on_lost(),
    /// perhaps before it returns. `host` is who a TLS certificate must be for.
    virtual void open(const Address &address, std::string_view host) = 0;
    virtual void close() = 0; // calls no callback

    virtual bool is_open() const = 0;

    enum class Stage {
        connecting,
        shaking_hands, // in the TLS handshake
        connected,     // ready to send the output
    };
    /// Returns the stage of an open connection.
    virtual Stage stage() const = 0;

    /// Sends the output at the end of this turn of the event loop, so that all commands of the turn
    /// go in one piece.
    virtual void send_soon() = 0;
    /// Sends what there is, without waiting for the end of the turn.
    virtual void send_now() = 0;

    /// Reads what has come by now, even if it was not reported yet. This must be done before a
    /// deadline counts as missed: timers may expire before what has come is read.
    virtual void read_now() = 0;

    /// Marks the connection as idle or busy. If it is idle, on_dismissed() is called as soon as the
    /// worker shuts down.
    virtual void set_idle(bool idle) = 0;
};

} // namespace redis_client
