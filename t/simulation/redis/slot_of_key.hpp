// Which hash slot of a cluster has a key, by the specification of Redis Cluster alone: what the
// module computes is held against it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace simulation {

/// CRC-16/XMODEM of what stands in the first braces, or of all where there are none or nothing
/// stands in them, modulo the number of hash slots.
constexpr uint16_t slot_of_key(std::string_view key) {
    if (const size_t open = key.find('{'); open != std::string_view::npos) {
        const size_t close = key.find('}', open + 1);
        if (close != std::string_view::npos && close > open + 1) {
            key = key.substr(open + 1, close - open - 1);
        }
    }
    uint32_t remainder = 0;
    for (const char c : key) {
        remainder ^= static_cast<uint32_t>(static_cast<unsigned char>(c)) << 8;
        for (int bit = 0; bit < 8; ++bit) {
            const bool divides = (remainder & 0x8000) != 0;
            remainder = (remainder << 1 & 0xffff) ^ (divides ? 0x1021 : 0);
        }
    }
    return static_cast<uint16_t>(remainder % 16384);
}

static_assert(slot_of_key("123456789") == 12739);
static_assert(slot_of_key("a{123456789}{b}") == 12739);
static_assert(slot_of_key("{}123456789") != 12739);

} // namespace simulation
