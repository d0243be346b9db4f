// Where bytes come from that nobody can guess.
#pragma once

#include <functional>
#include <span>

namespace redis_client {

/// Sets bytes that nobody can guess, and that nobody else gets. Returns false if there are none.
using RandomBytes = std::function<bool(std::span<unsigned char>)>;

/// Takes them from OpenSSL.
bool openssl_random_bytes(std::span<unsigned char> bytes);

} // namespace redis_client
