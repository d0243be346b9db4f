// The interface of an address source, which finds out before each connection where a Redis is now.
#pragma once

#include "redis_client/fault.hpp"
#include "redis_client/io/address.hpp"

#include <chrono>
#include <string_view>

namespace redis_client {

class AddressSource {
  public:
    class Callbacks {
      public:
        /// The search has ended. The Redis should be at address().
        virtual void on_located() = 0;
        /// The search has failed. The texts are valid during the call.
        virtual void on_not_located(const Fault &fault) = 0;
        /// The Redis has moved since it was located. locate() must be called again.
        virtual void on_moved() = 0;

      protected:
        ~Callbacks() = default;
    };

    virtual ~AddressSource() = default;

    /// Searches for the Redis. Calls on_located() or on_not_located() once, perhaps before it
    /// returns, unless give_up() is called before.
    virtual void locate(std::chrono::milliseconds timeout) = 0;
    /// Ends a search that nobody needs any more. It must also be called if the address that was
    /// found was of no use, so that the next search may find another one.
    virtual void give_up() = 0;
    /// Turns to another address that the Redis may have. Returns false if all were tried since
    /// give_up().
    virtual bool use_next() = 0;

    /// Returns the address that was found last.
    virtual const Address &address() const = 0;
    /// Returns the name or the address of the host, which its TLS certificate must be for.
    virtual std::string_view host() const = 0;
    /// Returns the address, or a name, for logs. May be called at any time.
    virtual std::string_view text() const = 0;
};

} // namespace redis_client
