// Addresses of servers: socket addresses, and names as a configuration or a Redis writes them.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <string_view>
#include <vector>

namespace redis_client {

/// A socket address with its port, and its text for logs.
class Address {
  public:
    Address(const sockaddr *address, socklen_t size);

    const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&address_); }
    socklen_t size() const { return size_; }
    const std::string &text() const { return text_; }
    bool is_local() const { return address_.ss_family == AF_UNIX; }
    /// Returns the same address with another port. It must not be local.
    Address with_port(in_port_t port) const;
    bool operator==(const Address &other) const { return text_ == other.text_; }

  private:
    sockaddr_storage address_{};
    socklen_t size_;
    std::string text_;
};

/// A server as a configuration or a Redis names it.
struct ServerAddress {
    std::string host; // a name, or an address without brackets; empty for a unix socket
    in_port_t port = 0;
    std::vector<Address> addresses = {}; // fixed addresses, in the order in which they are tried
    std::vector<Address> spare = {};     // a name's addresses until the resolver has found some

    bool is_local() const { return host.empty(); }
    const std::vector<Address> &known() const { return addresses.empty() ? spare : addresses; }
};

/// Returns the address if `host` is the text of one, and nothing if it is a name.
std::vector<Address> literal_address(std::string_view host, in_port_t port);

} // namespace redis_client
