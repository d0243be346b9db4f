#include "key_text.hpp"

namespace nginx_module {

namespace {

std::string_view address_text(std::string_view bytes, std::array<char, INET6_ADDRSTRLEN> &out) {
    const int family = bytes.size() == sizeof(in_addr) ? AF_INET : AF_INET6;
    if (family == AF_INET6 && bytes.size() != sizeof(in6_addr)) {
        return bytes; // a client on a unix socket: no address
    }
    const char *text = inet_ntop(family, bytes.data(), out.data(), out.size());
    return text != nullptr ? std::string_view(text) : bytes;
}

} // namespace

KeyText::KeyText(const ZoneConf &zone, std::string_view key)
    : text_(zone.key_is_binary_address ? address_text(key, address_) : key) {}

} // namespace nginx_module
