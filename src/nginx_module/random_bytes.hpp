// Bytes that nobody can guess.
#pragma once

#include <openssl/rand.h>

#include <span>

namespace nginx_module {

/// Returns false if there are none.
inline bool openssl_random_bytes(std::span<unsigned char> bytes) {
    return RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1;
}

} // namespace nginx_module
