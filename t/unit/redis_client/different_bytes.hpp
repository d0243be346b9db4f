// Bytes for names that no other one of a test has.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

namespace redis_client {

inline void different_bytes(std::span<unsigned char> bytes) {
    static uint32_t calls = 0;
    ++calls;
    std::memset(bytes.data(), 0, bytes.size());
    std::memcpy(bytes.data(), &calls, sizeof(calls));
}

} // namespace redis_client
