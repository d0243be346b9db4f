// A keyed hash for tables in memory. Without knowing the seed, nobody can make keys that collide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rate_limit {

struct HashSeed {
    uint64_t low;
    uint64_t high;
};

struct Hash {
    uint64_t low;
    uint64_t high;
    bool operator==(const Hash &) const = default;
};

/// SipHash-2-4 with 128 bits of output: Aumasson and Bernstein, "SipHash: a fast short-input PRF".
Hash hash_of(const HashSeed &seed, std::string_view bytes);

/// Returns the place of a hash among `size` places. It depends on the high half alone.
size_t index_of(const Hash &hash, size_t size);

} // namespace rate_limit
