// Finding out, before each connection, where a Redis is now.
#pragma once

#include "ngx.hpp"

#include <array>
#include <chrono>
#include <string_view>
#include <vector>

namespace nginx_module {

/// An address with its port, and as logs show it.
class Address {
  public:
    Address(const sockaddr *address, socklen_t size);

    ngx_addr_t addr() const; // valid as long as this
    std::string_view text() const { return {text_.data(), text_size_}; }
    bool is_local() const { return address_.sockaddr.sa_family == AF_UNIX; }
    bool operator==(const Address &other) const { return text() == other.text(); }

  private:
    ngx_sockaddr_t address_;
    socklen_t size_;
    std::array<char, NGX_SOCKADDR_STRLEN> text_;
    size_t text_size_;
};

class Locator {
  public:
    class Owner {
      public:
        /// The Redis may be at address().
        virtual void on_located() = 0;
        /// Nobody knows where it is. `what` is static text, `detail` is valid during the call.
        virtual void on_not_located(std::string_view what, std::string_view detail) = 0;
        /// It has moved since it was located: locate() again.
        virtual void on_moved() = 0;

      protected:
        ~Owner() = default;
    };

    virtual ~Locator() = default;

    /// Tells the owner, perhaps at once; each time only once.
    virtual void locate(std::chrono::milliseconds timeout) = 0;
    /// The owner wants to know no longer, or got nowhere with what it was told.
    virtual void give_up() = 0;

    /// What was located last.
    virtual const Address &address() const = 0;
    /// By which name or address: who a certificate is to be of.
    virtual std::string_view host() const = 0;
    /// For logs, at any time.
    virtual std::string_view text() const = 0;
};

} // namespace nginx_module
