// The text by which a client's address is a key, as `$redis_rate_limit_addr` and
// `$redis_rate_limit_addr_BITS` have it.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <optional>
#include <span>
#include <string_view>

namespace rate_limit {

/// The variable that cuts an IPv6 address to its /64. With more behind it, it is the name of a
/// variable that says to how many bits it cuts, such as `redis_rate_limit_addr_48`.
inline constexpr std::string_view network_variable = "redis_rate_limit_addr";
inline constexpr std::string_view network_variable_prefix = "redis_rate_limit_addr_";

/// Returns to how many bits the variable of this name cuts IPv6 addresses, 1 to 128. Returns
/// nothing for any other name. Leading zeros are refused, so that a network has one variable.
std::optional<unsigned> network_bits_of(std::string_view variable);

/// Returns the text of an address of 4 or 16 bytes, as `$binary_remote_addr` has it, which is in
/// `out`. Returns other bytes as they are: a client on a unix socket has no address.
std::string_view text_of_address(std::string_view bytes, std::span<char> out);

using NetworkText = std::array<char, INET6_ADDRSTRLEN + 4>;

/// Writes the network of an address that has its first `bits` bits (1 to 128), because an IPv6
/// client can take many addresses. If the address stands for an IPv4 client, writes that client's
/// whole address. Returns its part of `out`.
std::string_view network_of(const in6_addr &address, unsigned bits, NetworkText &out);

} // namespace rate_limit
