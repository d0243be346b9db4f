#include "rate_limit/text/hash.hpp"

#include "rate_limit/wide.hpp"

#include <endian.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace rate_limit {

namespace {

class SipState {
  public:
    explicit SipState(const HashSeed &seed)
        : v_{seed.low ^ 0x736f6d6570736575, seed.high ^ 0x646f72616e646f6d ^ 0xee,
             seed.low ^ 0x6c7967656e657261, seed.high ^ 0x7465646279746573} {}

    void take(uint64_t word) {
        v_[3] ^= word;
        round();
        round();
        v_[0] ^= word;
    }

    Hash finish() {
        Hash hash{};
        v_[2] ^= 0xee;
        hash.low = output();
        v_[1] ^= 0xdd;
        hash.high = output();
        return hash;
    }

  private:
    uint64_t output() {
        for (int i = 0; i < 4; ++i) {
            round();
        }
        return v_[0] ^ v_[1] ^ v_[2] ^ v_[3];
    }

    void round() {
        v_[0] += v_[1];
        v_[1] = std::rotl(v_[1], 13) ^ v_[0];
        v_[0] = std::rotl(v_[0], 32);
        v_[2] += v_[3];
        v_[3] = std::rotl(v_[3], 16) ^ v_[2];
        v_[0] += v_[3];
        v_[3] = std::rotl(v_[3], 21) ^ v_[0];
        v_[2] += v_[1];
        v_[1] = std::rotl(v_[1], 17) ^ v_[2];
        v_[2] = std::rotl(v_[2], 32);
    }

    std::array<uint64_t, 4> v_;
};

constexpr size_t word_size = sizeof(uint64_t);

/// Up to eight bytes as a number, the lowest byte first.
uint64_t word_of(std::string_view bytes) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), std::min(bytes.size(), word_size));
    return le64toh(word);
}

} // namespace

Hash hash_of(const HashSeed &seed, std::string_view bytes) {
    SipState state(seed);
    const uint64_t size = bytes.size();
    for (; bytes.size() >= word_size; bytes.remove_prefix(word_size)) {
        state.take(word_of(bytes));
    }
    state.take(size << 56 | word_of(bytes));
    return state.finish();
}

size_t index_of(const Hash &hash, size_t size) {
    const UnsignedWide product = UnsignedWide{hash.high} * size;
    return static_cast<size_t>(product >> 64);
}

} // namespace rate_limit
