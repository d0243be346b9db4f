#include "redis_client/io/random_bytes.hpp"

#include <openssl/rand.h>

namespace redis_client {

bool openssl_random_bytes(std::span<unsigned char> bytes) {
    return RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1;
}

} // namespace redis_client
