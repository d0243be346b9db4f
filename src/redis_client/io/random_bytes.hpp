// Where bytes come from that nobody else gets.
#pragma once

#include <functional>
#include <span>

namespace redis_client {

/// Sets bytes that no other worker gets, of any host: see World::random_bytes().
using RandomBytes = std::function<void(std::span<unsigned char>)>;

} // namespace redis_client
