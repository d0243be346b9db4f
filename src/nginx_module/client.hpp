// What a client's connection tells without being read.
#pragma once

#include "nginx_module/ngx.hpp"

#include <poll.h>

#include <string_view>

namespace nginx_module {

enum class ClientEnd {
    open,   // it can read, and may have ended its sending side (FIN)
    closed, // it takes no answer, which shows only if both ends are on this host
    reset
};

/// Tells how the client's end of the connection is. poll() works with each event method of nginx,
/// and does not remove errors that nginx still has to read.
inline ClientEnd client_end(const ngx_connection_t &connection) {
    pollfd socket{.fd = connection.fd, .events = 0, .revents = 0};
    if (poll(&socket, 1, 0) != 1) {
        return ClientEnd::open;
    }
    if ((socket.revents & POLLERR) != 0) {
        return ClientEnd::reset;
    }
    return (socket.revents & POLLHUP) != 0 ? ClientEnd::closed : ClientEnd::open;
}

/// Returns the client's address in bytes. A client on a unix socket has none.
inline std::string_view address_of(const ngx_connection_t &connection) {
    const sockaddr *address = connection.sockaddr;
    switch (address->sa_family) {
    case AF_INET: {
        const in_addr &bytes = reinterpret_cast<const sockaddr_in *>(address)->sin_addr;
        return {reinterpret_cast<const char *>(&bytes), sizeof(bytes)};
    }
    case AF_INET6: {
        const in6_addr &bytes = reinterpret_cast<const sockaddr_in6 *>(address)->sin6_addr;
        return {reinterpret_cast<const char *>(&bytes), sizeof(bytes)};
    }
    default:
        return {};
    }
}

} // namespace nginx_module
