// Which of the hash slots of a Redis Cluster a key is in.
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace redis_client {

inline constexpr size_t hash_slots = 16'384;

using HashSlotSet = std::bitset<hash_slots>;

/// Returns the hash slot of the bytes between the key's first braces, or of the whole key if there
/// are no braces, or nothing is between them.
uint16_t hash_slot(std::string_view redis_key);

} // namespace redis_client
