#include "rate_limit/text/hash.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

namespace rate_limit {
namespace {

constexpr HashSeed counting_seed{0x0706050403020100, 0x0f0e0d0c0b0a0908}; // bytes 00, 01, ... 0f

/// The hash as bytes, in the order in which the reference implementation writes them.
std::string hex(const Hash &hash) {
    std::string text;
    for (const uint64_t half : {hash.low, hash.high}) {
        for (int shift = 0; shift < 64; shift += 8) {
            char digits[3];
            std::snprintf(digits, sizeof(digits), "%02X",
                          static_cast<unsigned>(half >> shift & 0xff));
            text += digits;
        }
    }
    return text;
}

/// The bytes 00, 01, 02, ...
std::string counting(size_t size) {
    std::string bytes;
    for (size_t i = 0; i < size; ++i) {
        bytes += static_cast<char>(i);
    }
    return bytes;
}

TEST(Hash, IsThatOfTheReference) {
    const std::pair<size_t, std::string> vectors[] = {
        {0, "A3817F04BA25A8E66DF67214C7550293"},
        {1, "DA87C1D86B99AF44347659119B22FC45"},
        {15, "5493E99933B0A8117E08EC0F97CFC3D9"},
    };
    for (const auto &[size, expected] : vectors) {
        EXPECT_EQ(hex(hash_of(counting_seed, counting(size))), expected) << size;
    }
}

TEST(Hash, DependsOnEveryByteItsPlaceAndTheSeed) {
    std::set<std::string> hashes;
    size_t count = 0;
    const auto add = [&](const HashSeed &its_seed, std::string_view bytes) {
        hashes.insert(hex(hash_of(its_seed, bytes)));
        ++count;
    };
    for (size_t size = 0; size < 40; ++size) {
        std::string bytes(size, '\0');
        add(counting_seed, bytes);
        add({counting_seed.low ^ 1, counting_seed.high}, bytes);
        add({counting_seed.low, counting_seed.high ^ 1}, bytes);
        for (char &byte : bytes) {
            for (const unsigned char other : {0x01, 0x80, 0xff}) {
                byte = static_cast<char>(other);
                add(counting_seed, bytes);
            }
            byte = '\0';
        }
    }
    EXPECT_EQ(hashes.size(), count);
}

} // namespace
} // namespace rate_limit
