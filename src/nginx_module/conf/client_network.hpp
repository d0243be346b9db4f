// The text by which an IPv6 client is limited, as `$redis_rate_limit_addr` has it.
#pragma once

#include "../ngx.hpp"

#include <arpa/inet.h>

#include <array>
#include <string_view>

namespace nginx_module {

using NetworkText = std::array<char, INET6_ADDRSTRLEN + 3>;

/// Writes the address's /64 network, because an IPv6 client can take any address of it. If the
/// address stands for an IPv4 client, writes that client's whole address. Returns its part of
/// `out`.
std::string_view network_of(const in6_addr &address, NetworkText &out);

} // namespace nginx_module
