// Finds out, before each connection, where a Redis is now.
#pragma once

#include "../ngx.hpp"

#include "../conf/address.hpp"

#include <chrono>
#include <string_view>

namespace nginx_module {

class AddressSource {
  public:
    class Callbacks {
      public:
        /// The Redis may be at address().
        virtual void on_located() = 0;
        /// Nobody knows where it is. `what` is static text, `detail` is valid during the call.
        virtual void on_not_located(std::string_view what, std::string_view detail) = 0;
        /// It has moved since it was located: locate() again.
        virtual void on_moved() = 0;

      protected:
        ~Callbacks() = default;
    };

    virtual ~AddressSource() = default;

    /// Tells the owner, perhaps at once; each time only once.
    virtual void locate(std::chrono::milliseconds timeout) = 0;
    /// The owner wants to know no longer, or got nowhere with what it was told.
    virtual void give_up() = 0;
    /// Turns to another address that the Redis may have. Returns false if all were tried since
    /// give_up().
    virtual bool use_next() = 0;

    /// What was located last.
    virtual const Address &address() const = 0;
    /// By which name or address: who a certificate is to be of.
    virtual std::string_view host() const = 0;
    /// For logs, at any time.
    virtual std::string_view text() const = 0;
};

} // namespace nginx_module
