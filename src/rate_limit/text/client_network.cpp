#include "rate_limit/text/client_network.hpp"

#include "rate_limit/text/text_writer.hpp"
#include "rate_limit/text/times_and_numbers.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>

namespace rate_limit {

namespace {

constexpr unsigned bits_of_address = 8 * sizeof(in6_addr);

/// True if the last four bytes are an IPv4 address: one that is mapped into IPv6 (::ffff:0:0/96),
/// or one that a translator shows by the well-known prefix of RFC 6052 (64:ff9b::/96).
bool embeds_ipv4(const in6_addr &address) {
    constexpr uint8_t translated[12] = {0x00, 0x64, 0xff, 0x9b};
    return IN6_IS_ADDR_V4MAPPED(&address) ||
           std::memcmp(address.s6_addr, translated, sizeof(translated)) == 0;
}

/// Sets all bits but the first ones to zero.
void cut(in6_addr &address, unsigned bits) {
    constexpr unsigned bits_of_byte = 8;
    for (uint8_t &byte : address.s6_addr) {
        const unsigned kept = std::min(bits, bits_of_byte);
        byte = static_cast<uint8_t>(byte & 0xFF00U >> kept);
        bits -= kept;
    }
}

} // namespace

std::optional<unsigned> network_bits_of(std::string_view variable) {
    if (variable == network_variable) {
        return 64;
    }
    if (!variable.starts_with(network_variable_prefix)) {
        return std::nullopt;
    }
    variable.remove_prefix(network_variable_prefix.size());
    if (variable.starts_with('0')) {
        return std::nullopt;
    }
    const auto bits = parse_whole_number(variable, bits_of_address);
    return bits ? std::optional(static_cast<unsigned>(*bits)) : std::nullopt;
}

std::string_view text_of_address(std::string_view bytes, std::span<char> out) {
    const int family = bytes.size() == sizeof(in_addr) ? AF_INET : AF_INET6;
    if (family == AF_INET6 && bytes.size() != sizeof(in6_addr)) {
        return bytes;
    }
    const char *text =
        inet_ntop(family, bytes.data(), out.data(), static_cast<socklen_t>(out.size()));
    return text != nullptr ? std::string_view(text) : bytes;
}

std::string_view network_of(const in6_addr &address, unsigned bits, NetworkText &out) {
    if (embeds_ipv4(address)) {
        return inet_ntop(AF_INET, &address.s6_addr[12], out.data(), out.size());
    }
    in6_addr network = address;
    cut(network, bits);
    const size_t size = std::strlen(inet_ntop(AF_INET6, &network, out.data(), INET6_ADDRSTRLEN));
    TextWriter rest(std::span<char>(out).subspan(size));
    rest << "/" << uint64_t{bits};
    return {out.data(), size + rest.size()};
}

} // namespace rate_limit
