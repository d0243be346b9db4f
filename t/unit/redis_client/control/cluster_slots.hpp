// The reply to CLUSTER SLOTS, of whatever is in it.
#pragma once

#include "unit/redis_client/wire.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace redis_client {

inline std::string number(long long number) {
    return ":" + std::to_string(number) + "\r\n";
}

inline std::string list(const std::vector<std::string> &elements) {
    std::string bytes = "*" + std::to_string(elements.size()) + "\r\n";
    for (const std::string &element : elements) {
        bytes += element;
    }
    return bytes;
}

/// As Redis 7 tells it.
inline std::string node(std::string_view host, int port) {
    return list({bulk_string(host), number(port), bulk_string("id"), list({})});
}

/// The same of a node that prefers its name, and tells its address, too.
inline std::string node(std::string_view name, int port, std::string_view address) {
    return list({bulk_string(name), number(port), bulk_string("id"),
                 list({bulk_string("ip"), bulk_string(address)})});
}

/// The master first.
inline std::string range(int first, int last, const std::vector<std::string> &nodes) {
    std::vector<std::string> elements = {number(first), number(last)};
    elements.insert(elements.end(), nodes.begin(), nodes.end());
    return list(elements);
}

} // namespace redis_client
