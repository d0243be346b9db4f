// Redis Cluster: which of its hash slots a key is in, and what a node says that has not got it.
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace redis_client {

inline constexpr size_t hash_slots = 16'384;

using HashSlotSet = std::bitset<hash_slots>;

/// That of the bytes between the key's first braces, or of the whole key where they are empty or
/// missing.
uint16_t hash_slot(std::string_view redis_key);

/// Another node has the key.
struct Redirect {
    enum class Kind {
        moved, // and from now on all keys of its hash slot
        ask,   // this time, while the hash slot moves: with ASKING
    };

    Kind kind;
    uint16_t hash_slot;
    std::string_view host; // empty: that of the node which says so
    uint16_t port;
};

/// Nothing where the error is none of these.
std::optional<Redirect> parse_redirect(std::string_view error);

} // namespace redis_client
