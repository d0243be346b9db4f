// The interface of an address source, which finds out before each connection where a Redis is now.
#pragma once

#include "nginx_module/ngx.hpp"

#include "nginx_module/conf/configuration.hpp"

#include <chrono>
#include <memory>
#include <string_view>

namespace nginx_module {

using redis_client::Address;
using redis_client::literal_address;
using redis_client::Mode;
using redis_client::ServerAddress;

class AddressSource {
  public:
    class Callbacks {
      public:
        /// The search has ended. The Redis should be at address().
        virtual void on_located() = 0;
        /// The search has failed. `what` is static text, and `detail` is valid during the call.
        virtual void on_not_located(std::string_view what, std::string_view detail) = 0;
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

/// Makes the address source of a backend that is no cluster: of its only server, or of the master
/// that its Sentinels name.
std::unique_ptr<AddressSource> make_address_source(AddressSource::Callbacks &callbacks,
                                                   const BackendConf &conf, ngx_log_t *log);

} // namespace nginx_module
