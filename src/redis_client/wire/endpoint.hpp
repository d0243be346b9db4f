// Where a Redis is, as another one names it.
#pragma once

#include <cstdint>
#include <string>

namespace redis_client {

struct Endpoint {
    std::string host; // a name or an address
    uint16_t port = 0;

    bool operator==(const Endpoint &) const = default;
};

/// No name of a host is longer: RFC 1035, section 2.3.4.
inline constexpr size_t longest_host = 255;

} // namespace redis_client
