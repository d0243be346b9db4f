#include "nginx_module/pages/api/address_key.hpp"

#include "rate_limit/text/field_value.hpp"
#include "rate_limit/text/text_writer.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace nginx_module {

std::optional<BinaryAddress> read_address(std::string_view text) {
    std::array<char, INET6_ADDRSTRLEN> terminated;
    if (text.size() >= terminated.size() || text.find('\0') != std::string_view::npos) {
        return std::nullopt;
    }
    *std::ranges::copy(text, terminated.begin()).out = '\0';
    BinaryAddress address{};
    const bool is_ipv6 = text.find(':') != std::string_view::npos;
    address.size = is_ipv6 ? sizeof(in6_addr) : sizeof(in_addr);
    if (inet_pton(is_ipv6 ? AF_INET6 : AF_INET, terminated.data(), address.bytes.data()) != 1) {
        return std::nullopt;
    }
    return address;
}

std::optional<BinaryAddress> read_meant_address(std::string_view text) {
    text = rate_limit::without_outer_blanks(text);
    if (text.starts_with('[') && text.ends_with(']')) {
        text = text.substr(1, text.size() - 2);
    }
    if (text.size() > NGX_SOCKADDR_STRLEN) {
        return std::nullopt;
    }
    if (text.find(':') != std::string_view::npos) {
        return read_address(text);
    }
    std::string meant;
    for (const char c : text) {
        const bool is_behind_zero = meant == "0" || meant.ends_with(".0");
        if (c != '.' && is_behind_zero) {
            meant.pop_back();
        }
        meant += c;
    }
    return read_address(meant);
}

std::string_view text_of(const BinaryAddress &address, AddressText &out) {
    BinaryAddress copy = address; // nginx's function takes no constant
    const int family = address.size == sizeof(in6_addr) ? AF_INET6 : AF_INET;
    const size_t size = ngx_inet_ntop(family, copy.bytes.data(), out.data(), out.size());
    return {reinterpret_cast<const char *>(out.data()), size};
}

std::optional<std::string_view> network_in(std::string_view text, unsigned bits,
                                           rate_limit::NetworkText &out) {
    if (text == unix_socket_key) {
        return text;
    }
    std::array<char, std::string_view("/128").size()> size;
    rate_limit::TextWriter writer(size);
    writer << "/" << uint64_t{bits};
    const std::string_view of_network(size.data(), writer.size());
    const bool is_network = text.ends_with(of_network);
    const auto address =
        read_address(text.substr(0, text.size() - (is_network ? of_network.size() : 0)));
    if (!address) {
        return std::nullopt;
    }
    std::string_view found;
    if (address->size == sizeof(in6_addr)) {
        in6_addr of_client;
        std::ranges::copy(address->bytes, reinterpret_cast<char *>(&of_client));
        found = rate_limit::network_of(of_client, bits, out);
    } else {
        found = inet_ntop(AF_INET, address->bytes.data(), out.data(), out.size());
    }
    return is_network && !found.ends_with(of_network) ? std::nullopt : std::optional(found);
}

} // namespace nginx_module
