// What a node of a Redis Cluster says of a key that another node has: MOVED and ASK.
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace redis_client {

struct Redirect {
    enum class Kind {
        moved, // the other node has all keys of the hash slot from now on
        ask,   // it is to be asked this time, after ASKING, while the hash slot moves
    };

    Kind kind;
    uint16_t hash_slot;
    std::string_view host; // empty: the host of the node that says so
    uint16_t port;
};

/// The slot map may be wrong once, and the keys of a hash slot may move while it is put right. A
/// command that is redirected more often goes round in circles.
inline constexpr int most_redirects = 5;

/// Returns nothing if the error is not a redirect.
std::optional<Redirect> parse_redirect(std::string_view error);

} // namespace redis_client
