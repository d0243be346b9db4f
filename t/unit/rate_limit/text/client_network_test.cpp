#include "rate_limit/text/client_network.hpp"

#include <gtest/gtest.h>

#include <bitset>
#include <string>

namespace rate_limit {
namespace {

in6_addr address_of(const std::string &text) {
    in6_addr address{};
    EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), &address), 1) << text;
    return address;
}

std::string network(const std::string &text, unsigned bits) {
    NetworkText out;
    return std::string(network_of(address_of(text), bits, out));
}

std::bitset<128> bits_of(const in6_addr &address) {
    std::bitset<128> bits;
    for (const uint8_t byte : address.s6_addr) {
        bits = bits << 8 | std::bitset<128>(byte);
    }
    return bits;
}

TEST(ClientNetwork, IsCutToAnyNumberOfBits) {
    for (const char *text :
         {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "a5c3:1e87:96f0:5a3c:e178:690f:3ca5:871f"}) {
        for (unsigned bits = 1; bits <= 128; ++bits) {
            const std::string found = network(text, bits);
            const size_t slash = found.find('/');
            ASSERT_NE(slash, std::string::npos) << found;
            EXPECT_EQ(found.substr(slash + 1), std::to_string(bits));
            const std::bitset<128> kept = ~std::bitset<128>() << (128 - bits);
            EXPECT_EQ(bits_of(address_of(found.substr(0, slash))), bits_of(address_of(text)) & kept)
                << found;
        }
    }
}

TEST(ClientNetwork, IsWrittenInTheShortForm) {
    EXPECT_EQ(network("2001:db8:1:2:3:4:5:6", 64), "2001:db8:1:2::/64");
    EXPECT_EQ(network("2001:db8:1:2:3:4:5:6", 48), "2001:db8:1::/48");
    EXPECT_EQ(network("2001:db8:1:2ff:3:4:5:6", 56), "2001:db8:1:200::/56");
    EXPECT_EQ(network("2001:db8:1:ff:3:4:5:6", 56), "2001:db8:1::/56");
    EXPECT_EQ(network("2001:db8:1:2:3:4:5:6", 20), "2001::/20");
    EXPECT_EQ(network("2001:db8:1:2:3:4:5:6", 21), "2001:800::/21");
    EXPECT_EQ(network("2001:0:0:1:0:0:0:1", 128), "2001:0:0:1::1/128");
    EXPECT_EQ(network("ffff::", 1), "8000::/1");
    EXPECT_EQ(network("::1", 1), "::/1");
}

TEST(ClientNetwork, OfAnIpv4ClientIsItsAddress) {
    for (unsigned bits = 1; bits <= 128; ++bits) {
        EXPECT_EQ(network("::ffff:203.0.113.7", bits), "203.0.113.7");
        EXPECT_EQ(network("64:ff9b::203.0.113.7", bits), "203.0.113.7");
    }
    EXPECT_EQ(network("64:ff9b:1::203.0.113.7", 48), "64:ff9b:1::/48");
}

TEST(ClientNetwork, HasRoomForTheLongestText) {
    constexpr std::string_view longest = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128";
    EXPECT_EQ(network("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 128), longest);
    EXPECT_LE(longest.size(), NetworkText().size());
}

TEST(ClientNetwork, VariablesSayToHowManyBits) {
    EXPECT_EQ(network_bits_of("redis_rate_limit_addr"), 64);
    for (unsigned bits = 1; bits <= 128; ++bits) {
        EXPECT_EQ(network_bits_of("redis_rate_limit_addr_" + std::to_string(bits)), bits);
    }
    for (const char *rest : {"0", "129", "1000", "18446744073709551617", "", "048", "00", "+48",
                             "-1", "4 8", "48 ", "48x", "x", "0x30", "4.8", "_48"}) {
        EXPECT_FALSE(network_bits_of(std::string("redis_rate_limit_addr_") + rest)) << rest;
    }
    for (const char *other : {"", "redis_rate_limit_add", "redis_rate_limit_addr48",
                              "Redis_rate_limit_addr", "remote_addr", "48"}) {
        EXPECT_FALSE(network_bits_of(other)) << other;
    }
}

} // namespace
} // namespace rate_limit
