// What a client's connection tells without being read.
#pragma once

#include "nginx_module/ngx.hpp"

#include <poll.h>

namespace nginx_module {

/// Returns true if the connection takes no answer any more: it was reset, or its other end is
/// closed, which shows only if both ends are on this host. A client that has ended its sending side
/// (FIN) can still read. poll() works with each event method of nginx, and does not remove errors
/// that nginx still has to read.
inline bool is_dead(const ngx_connection_t &connection) {
    pollfd socket{.fd = connection.fd, .events = 0, .revents = 0};
    return poll(&socket, 1, 0) == 1 && (socket.revents & (POLLERR | POLLHUP)) != 0;
}

} // namespace nginx_module
