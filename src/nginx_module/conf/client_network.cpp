#include "client_network.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace nginx_module {

namespace {

/// True if the last four bytes are an IPv4 address: one that is mapped into IPv6 (::ffff:0:0/96),
/// or one that a translator shows by the well-known prefix of RFC 6052 (64:ff9b::/96).
bool embeds_ipv4(const in6_addr &address) {
    constexpr uint8_t translated[12] = {0x00, 0x64, 0xff, 0x9b};
    return IN6_IS_ADDR_V4MAPPED(&address) ||
           std::memcmp(address.s6_addr, translated, sizeof(translated)) == 0;
}

} // namespace

std::string_view network_of(const in6_addr &address, NetworkText &out) {
    if (embeds_ipv4(address)) {
        return inet_ntop(AF_INET, &address.s6_addr[12], out.data(), out.size());
    }
    constexpr std::string_view prefix_length = "/64";
    in6_addr network = address;
    std::fill(std::begin(network.s6_addr) + 8, std::end(network.s6_addr), uint8_t{0});
    const size_t size = std::strlen(inet_ntop(AF_INET6, &network, out.data(), INET6_ADDRSTRLEN));
    std::ranges::copy(prefix_length, out.data() + size);
    return {out.data(), size + prefix_length.size()};
}

} // namespace nginx_module
