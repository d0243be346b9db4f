#include "redis_client/wire/hash_slot.hpp"

#include <gtest/gtest.h>

namespace redis_client {
namespace {

TEST(HashSlot, IsTheChecksumOfTheKey) {
    EXPECT_EQ(hash_slot("123456789"), 0x31c3); // CRC-16/XMODEM's check value, below 16384
    EXPECT_EQ(hash_slot(""), 0);
    // as CLUSTER KEYSLOT of Redis 7.0 says:
    EXPECT_EQ(hash_slot("foo"), 12182);
    EXPECT_EQ(hash_slot("bar"), 5061);
    EXPECT_EQ(hash_slot("hello"), 866);
    EXPECT_EQ(hash_slot("\xff\xfe"), 3374);
}

TEST(HashSlot, IsThatOfTheHashTagAlone) {
    EXPECT_EQ(hash_slot("{user1000}.following"), 3443);
    EXPECT_EQ(hash_slot("user1000"), 3443);
    EXPECT_EQ(hash_slot("foo{bar}"), hash_slot("bar"));
    EXPECT_EQ(hash_slot("rl:{per_ip:203.0.113.7}:sliding_log:60000"), 6949);
    EXPECT_EQ(hash_slot("per_ip:203.0.113.7"), 6949);
}

TEST(HashSlot, IsThatOfTheFirstBracesOnly) {
    EXPECT_EQ(hash_slot("foo{bar}{zap}"), hash_slot("bar"));
    EXPECT_EQ(hash_slot("foo{{bar}}zap"), hash_slot("{bar"));
    EXPECT_EQ(hash_slot("}{foo}"), hash_slot("foo"));
    EXPECT_EQ(hash_slot("a}bar{foo}"), hash_slot("foo"));
}

TEST(HashSlot, IsThatOfTheWholeKeyWithoutATag) {
    EXPECT_EQ(hash_slot("{}"), 15257);
    EXPECT_EQ(hash_slot("foo{}{bar}"), 8363); // empty, and no later braces count
    EXPECT_EQ(hash_slot("a{bar"), 15394);
    EXPECT_EQ(hash_slot("}}{{"), 15093);
}

} // namespace
} // namespace redis_client
