// What a person reads of a client's key.
#pragma once

#include "limiter/configuration.hpp"

#include <arpa/inet.h>

#include <array>
#include <string_view>

namespace limiter {

using KeyTextBuffer = std::array<char, INET6_ADDRSTRLEN>;

/// Returns what a person reads of a key: the address as text, perhaps in `out`, if the zone writes
/// the key as `$binary_remote_addr`, or else the key.
std::string_view readable_key(const Zone &zone, std::string_view key, KeyTextBuffer &out);

inline constexpr size_t shown_digits_of_hash = 12;

/// Writes the first 12 hex digits of the SHA-256 of the whole key, however long it is, to `out`,
/// and returns that part of it. If the zone writes the key as `$binary_remote_addr`, it is the hash
/// of the address as text.
std::string_view hash_of_key(const Zone &zone, std::string_view key, KeyTextBuffer &out);

} // namespace limiter
