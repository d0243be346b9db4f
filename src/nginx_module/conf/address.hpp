// Where servers are: addresses, and servers as a configuration or a Redis names them.
#pragma once

#include "../ngx.hpp"

#include <array>
#include <string>
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

/// As a configuration or a Redis names it.
struct ServerAddress {
    std::string host; // a name, or an address without brackets; empty for a unix socket
    in_port_t port = 0;
    std::vector<Address> addresses = {}; // where it is fixed: in the order in which they are tried
    std::vector<Address> spare = {};     // of a name, as long as the resolver has found none

    bool is_local() const { return host.empty(); }
    const std::vector<Address> &known() const { return addresses.empty() ? spare : addresses; }
};

/// The address that a text is; none where it is a name.
std::vector<Address> literal_address(std::string_view host, in_port_t port);

} // namespace nginx_module
