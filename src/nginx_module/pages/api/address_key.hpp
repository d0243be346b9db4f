// Addresses of clients as operators write them, and as they are in keys.
#pragma once

#include "nginx_module/http/ngx.hpp"

#include "rate_limit/text/client_network.hpp"

#include <netinet/in.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace nginx_module {

/// What `$remote_addr` and the variables of networks have for a client on a unix socket, and what
/// `$binary_remote_addr` has, too.
inline constexpr std::string_view unix_socket_key = "unix:";

/// An address in its bytes, as $binary_remote_addr has it.
struct BinaryAddress {
    std::array<char, sizeof(in6_addr)> bytes;
    size_t size;

    std::string_view view() const { return {bytes.data(), size}; }
};

/// Reads an IPv4 or IPv6 address.
std::optional<BinaryAddress> read_address(std::string_view text);

/// Reads what is no address, but tells which one is meant: with blanks or brackets around it, or
/// with zeros before the numbers of an IPv4 address.
std::optional<BinaryAddress> read_meant_address(std::string_view text);

using AddressText = std::array<u_char, NGX_SOCKADDR_STRLEN>;

/// Writes the address as nginx does in $remote_addr. Returns its part of `out`.
std::string_view text_of(const BinaryAddress &address, AddressText &out);

/// Returns the text that a variable which cuts addresses to so many bits has for an address, or for
/// a network of that size, which stands for itself. Returns nothing for any other text.
std::optional<std::string_view> network_in(std::string_view text, unsigned bits,
                                           rate_limit::NetworkText &out);

} // namespace nginx_module
