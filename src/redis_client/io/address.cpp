#include "redis_client/io/address.hpp"

#include <arpa/inet.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace redis_client {

namespace {

std::string text_of(const sockaddr_storage &address, socklen_t size) {
    std::array<char, INET6_ADDRSTRLEN> host{};
    if (address.ss_family == AF_INET) {
        const auto &ipv4 = reinterpret_cast<const sockaddr_in &>(address);
        inet_ntop(AF_INET, &ipv4.sin_addr, host.data(), host.size());
        return std::string(host.data()) + ":" + std::to_string(ntohs(ipv4.sin_port));
    }
    if (address.ss_family == AF_INET6) {
        const auto &ipv6 = reinterpret_cast<const sockaddr_in6 &>(address);
        inet_ntop(AF_INET6, &ipv6.sin6_addr, host.data(), host.size());
        return "[" + std::string(host.data()) + "]:" + std::to_string(ntohs(ipv6.sin6_port));
    }
    const auto &local = reinterpret_cast<const sockaddr_un &>(address);
    const std::string_view path(local.sun_path, size - offsetof(sockaddr_un, sun_path));
    return "unix:" + std::string(path.substr(0, path.find('\0')));
}

} // namespace

Address::Address(const sockaddr *address, socklen_t size) : size_(size) {
    std::copy_n(reinterpret_cast<const char *>(address), size, reinterpret_cast<char *>(&address_));
    text_ = text_of(address_, size_);
}

Address Address::with_port(in_port_t port) const {
    sockaddr_storage changed = address_;
    if (changed.ss_family == AF_INET6) {
        reinterpret_cast<sockaddr_in6 &>(changed).sin6_port = htons(port);
    } else {
        reinterpret_cast<sockaddr_in &>(changed).sin_port = htons(port);
    }
    return {reinterpret_cast<const sockaddr *>(&changed), size_};
}

std::vector<Address> literal_address(std::string_view host, in_port_t port) {
    const std::string text(host);
    sockaddr_in ipv4{};
    if (inet_pton(AF_INET, text.c_str(), &ipv4.sin_addr) == 1) {
        ipv4.sin_family = AF_INET;
        ipv4.sin_port = htons(port);
        return {Address(reinterpret_cast<const sockaddr *>(&ipv4), sizeof(ipv4))};
    }
    sockaddr_in6 ipv6{};
    if (inet_pton(AF_INET6, text.c_str(), &ipv6.sin6_addr) == 1) {
        ipv6.sin6_family = AF_INET6;
        ipv6.sin6_port = htons(port);
        return {Address(reinterpret_cast<const sockaddr *>(&ipv6), sizeof(ipv6))};
    }
    return {};
}

} // namespace redis_client
