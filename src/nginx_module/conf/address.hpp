// Addresses of servers: socket addresses, and names as a configuration or a Redis writes them.
#pragma once

#include "nginx_module/ngx.hpp"

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace nginx_module {

/// A socket address with its port, and its text for logs.
class Address {
  public:
    Address(const sockaddr *address, socklen_t size);

    ngx_addr_t addr() const; // valid as long as this object
    std::string_view text() const { return {text_.data(), text_size_}; }
    bool is_local() const { return address_.sockaddr.sa_family == AF_UNIX; }
    bool operator==(const Address &other) const { return text() == other.text(); }

  private:
    ngx_sockaddr_t address_;
    socklen_t size_;
    std::array<char, NGX_SOCKADDR_STRLEN> text_;
    size_t text_size_;
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

} // namespace nginx_module
