#include "rate_limit/text/key.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;

// These bytes stand for themselves. They are written out, to be independent of the code's
// condition.
constexpr std::string_view plain_bytes =
    "!\"#$&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    "[\\]^_`abcdefghijklmnopqrstuvwxyz|~";

std::string encoded(std::string_view client_key) {
    std::array<char, 128> out;
    return std::string(encode_client_key(client_key, out));
}

std::string redis_key(const KeyFormat &format, std::string_view client_key) {
    RedisKeyBuffer out;
    return std::string(format.write(client_key, out));
}

std::string redis_key(const KeyFormat &format, std::string_view client_key, uint64_t shard) {
    RedisKeyBuffer out;
    return std::string(format.write(client_key, shard, out));
}

Rule per_ip() {
    Rule rule;
    rule.zone = "per_ip";
    rule.quota.limit = 100;
    rule.quota.window = 60s;
    return rule;
}

std::string repeated(std::string_view text, size_t times) {
    std::string all;
    for (size_t i = 0; i < times; ++i) {
        all += text;
    }
    return all;
}

TEST(Key, HasTheDocumentedFormat) {
    Rule rule = per_ip();
    EXPECT_EQ(redis_key(KeyFormat("rl:", rule), "203.0.113.7"),
              "rl:{per_ip:203.0.113.7}:sliding_log:60000");
    EXPECT_EQ(redis_key(KeyFormat("", rule), ""), "{per_ip:}:sliding_log:60000");
    rule.explicit_name = "api/v1";
    rule.quota.window = 500ms;
    EXPECT_EQ(redis_key(KeyFormat("x", rule), "a"), "x{per_ip:a}:sliding_log:500:api/v1");
}

TEST(Key, NamesTheAlgorithm) {
    Rule rule = per_ip();
    rule.quota.algorithm = Algorithm::concurrency;
    EXPECT_EQ(redis_key(KeyFormat("rl:", rule), "a"), "rl:{per_ip:a}:concurrency:60000");
}

TEST(Key, DependsOnTheLimitInNothing) {
    Rule rule = per_ip();
    const std::string before = redis_key(KeyFormat("rl:", rule), "a");
    rule.quota.limit = 7;
    rule.quota.burst = 3;
    rule.quota.cost = 2;
    EXPECT_EQ(redis_key(KeyFormat("rl:", rule), "a"), before);
}

TEST(Key, KeepsOneHashTagWhateverTheClientSends) {
    const std::string key = redis_key(KeyFormat("rl:", per_ip()), "}:x{}\r\n*1\r\n%");
    EXPECT_EQ(key, "rl:{per_ip:%7D:x%7B%7D%0D%0A*1%0D%0A%25}:sliding_log:60000");
}

TEST(Key, EncodesEachByteValue) {
    for (int byte = 0; byte < 256; ++byte) {
        const char c = static_cast<char>(byte);
        char percent[4];
        std::snprintf(percent, sizeof(percent), "%%%02X", static_cast<unsigned>(byte));
        const bool plain = plain_bytes.find(c) != std::string_view::npos;
        EXPECT_EQ(encoded({&c, 1}), plain ? std::string(1, c) : percent) << byte;
    }
    EXPECT_EQ(encoded("a\0b"s), "a%00b");
}

TEST(Key, IsDigestedBeyond128EncodedBytes) {
    EXPECT_EQ(encoded(std::string(128, 'x')), std::string(128, 'x'));
    EXPECT_EQ(encoded(std::string(129, 'x')),
              "%0ec9eb33e74510bcdd1f2ea55206e82f21649c5c2becbf2b433eb475b34c01bd");
    EXPECT_EQ(encoded(std::string(125, 'x') + '\0'), std::string(125, 'x') + "%00");
    EXPECT_EQ(encoded(std::string(126, 'x') + '\0').size(), 65u);
    // 42 encoded bytes are 126, so two more plain ones fit, and neither a third nor a 43rd
    const std::string nuls(42, '\0');
    EXPECT_EQ(encoded(nuls + "xy"), repeated("%00", 42) + "xy");
    for (const std::string &too_long : {nuls + "xyz", nuls + "\0"s, "xy" + nuls + "z"}) {
        EXPECT_EQ(encoded(too_long).size(), 65u);
    }
}

TEST(Key, EncodesEveryLengthOrDigestsIt) {
    for (size_t size = 0; size <= 300; ++size) {
        EXPECT_EQ(encoded(std::string(size, 'x')).size(), size <= 128 ? size : 65) << size;
        EXPECT_EQ(encoded(std::string(size, '{')).size(), size <= 42 ? 3 * size : 65) << size;
    }
}

TEST(Key, MayBeAMegabyte) {
    // a published test vector of SHA-256
    EXPECT_EQ(encoded(std::string(1'000'000, 'a')),
              "%cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    std::string key(1 << 20, '\0');
    const std::string before = encoded(key);
    key.back() = 1;
    EXPECT_NE(encoded(key), before);
}

// The encoded form of byte 0x12 and 62 hex digits is `%` and 64 hex digits, as a digest is.
TEST(Key, IsDigestedWhereItWouldReadLikeADigest) {
    const std::string digits = repeated("0123456789abcdef", 4).substr(0, 62);
    EXPECT_EQ(encoded("\x12" + digits),
              "%c4307a40af92efc36f36a4a9104da381823dc81e48fda026d63ba9e2601ad440");
    EXPECT_NE(encoded("\x90" + digits), "%90" + digits);

    // No digest has upper-case digits, one digit more or less, or another letter.
    std::string other = digits;
    other.back() = 'g';
    EXPECT_EQ(encoded("\x12" + other), "%12" + other);
    other.back() = 'A';
    EXPECT_EQ(encoded("\x12" + other), "%12" + other);
    EXPECT_EQ(encoded("\x1f" + digits), "%1F" + digits);
    EXPECT_EQ(encoded("\x12" + digits + "0"), "%12" + digits + "0");
    EXPECT_EQ(encoded("\x12" + digits.substr(1)), "%12" + digits.substr(1));
}

TEST(Key, IsNoDigestThatAClientCanSpell) {
    const std::string long_key(129, 'x');
    const std::string digest = encoded(long_key);
    EXPECT_NE(encoded(digest), digest);
    for (int byte = 0; byte < 256; ++byte) {
        EXPECT_NE(encoded(static_cast<char>(byte) + digest.substr(3)), digest) << byte;
    }
}

TEST(Key, DiffersWhereClientKeysDiffer) {
    std::set<std::string> keys;
    for (int first = 0; first < 256; ++first) {
        keys.insert(std::string(1, static_cast<char>(first)));
        for (int second = 0; second < 256; ++second) {
            keys.insert({static_cast<char>(first), static_cast<char>(second)});
        }
    }
    for (const char c : {'a', '0', '%', '{', '\0', '\xff'}) {
        for (size_t size = 0; size <= 200; ++size) {
            keys.insert(std::string(size, c));
        }
        for (const size_t size : {41, 42, 43, 63, 64, 65, 127, 128, 129, 1000}) {
            keys.insert(std::string(size, 'a') + c);
            keys.insert(c + std::string(size, 'a'));
        }
    }
    const std::set<std::string> raw = keys;
    for (const std::string &key : raw) {
        keys.insert(encoded(key)); // a client may know the encoding, and send this
    }
    std::set<std::string> encodings;
    for (const std::string &key : keys) {
        encodings.insert(encoded(key));
    }
    EXPECT_EQ(encodings.size(), keys.size());
}

TEST(Key, FitsItsBufferAtItsLongest) {
    Rule rule;
    rule.zone = std::string(longest_name, 'z');
    rule.explicit_name = std::string(longest_name, 'n');
    rule.quota.algorithm = Algorithm::sliding_window; // it has the longest name
    rule.quota.window = longest_window;
    const std::string prefix(longest_prefix, 'p');
    const std::string client_key(128, 'k');
    const std::string key = redis_key(KeyFormat(prefix, rule), client_key);
    EXPECT_EQ(key, prefix + "{" + rule.zone + ":" + client_key +
                       "}:sliding_window:31622400000:" + rule.explicit_name);
    EXPECT_LE(key.size(), std::tuple_size_v<RedisKeyBuffer>);

    rule.shards = 64;
    const std::string of_shard = redis_key(KeyFormat(prefix, rule), client_key, 63);
    EXPECT_EQ(of_shard, prefix + "{" + rule.zone + ":" + client_key +
                            "%#63/64}:sliding_window:31622400000:" + rule.explicit_name);
    EXPECT_LE(of_shard.size(), std::tuple_size_v<RedisKeyBuffer>);
}

TEST(Key, HasRoomForTheLongestCalendar) {
    const std::string zone(longest_time_zone_name, 'Z');
    Rule rule;
    rule.zone = std::string(longest_name, 'z');
    rule.explicit_name = std::string(longest_name, 'n');
    rule.quota.algorithm = Algorithm::fixed_window;
    rule.calendar = std::make_shared<const Calendar>(
        CalendarName{.unit = CalendarUnit::quarter, .starts = 28, .time_zone = zone}, nullptr);
    rule.shards = 64;
    EXPECT_EQ(rate_limit::counter_name(rule),
              "fixed_window:quarter-28@" + zone + ":" + rule.explicit_name);
    const std::string prefix(longest_prefix, 'p');
    const std::string client_key(128, 'k');
    const std::string of_shard = redis_key(KeyFormat(prefix, rule), client_key, 63);
    // another host's algorithm may have 24 bytes
    EXPECT_LE(of_shard.size() + 24 - to_string(Algorithm::fixed_window).size(),
              std::tuple_size_v<RedisKeyBuffer>);
}

TEST(CounterName, MayHaveAWindowOfACalendar) {
    EXPECT_TRUE(rate_limit::is_counter_name("fixed_window:month"));
    EXPECT_TRUE(rate_limit::is_counter_name("fixed_window:month-15@Europe/Berlin:plan"));
    EXPECT_FALSE(rate_limit::is_counter_name("fixed_window:fortnight"));
    EXPECT_FALSE(rate_limit::is_counter_name("fixed_window:month@" + std::string(41, 'Z')));
    EXPECT_FALSE(rate_limit::is_counter_name("fixed_window:month-29"));
}

TEST(CounterName, IsOneThatTheBufferHasRoomFor) {
    EXPECT_TRUE(rate_limit::is_counter_name("sliding_window:31622400000"));
    EXPECT_TRUE(rate_limit::is_counter_name("gcra:1:" + std::string(longest_name, 'n')));
    EXPECT_FALSE(rate_limit::is_counter_name("gcra:31622400001"));
    EXPECT_FALSE(rate_limit::is_counter_name("gcra:060000"));
    EXPECT_FALSE(rate_limit::is_counter_name("gcra:" + std::string(1000, '0') + "60000"));
    EXPECT_FALSE(rate_limit::is_counter_name(std::string(25, 'a') + ":60000"));
    EXPECT_FALSE(rate_limit::is_counter_name("gcra:1:" + std::string(longest_name + 1, 'n')));
    EXPECT_FALSE(rate_limit::is_counter_name("gcra:"));
}

TEST(Key, HasItsShardInTheHashTag) {
    Rule rule = per_ip();
    rule.shards = 8;
    const KeyFormat format("rl:", rule);
    EXPECT_EQ(redis_key(format, "203.0.113.7", 0),
              "rl:{per_ip:203.0.113.7%#0/8}:sliding_log:60000");
    EXPECT_EQ(redis_key(format, "203.0.113.7", 7),
              "rl:{per_ip:203.0.113.7%#7/8}:sliding_log:60000");
    EXPECT_EQ(redis_key(format, "203.0.113.7"), "rl:{per_ip:203.0.113.7}:sliding_log:60000");
    EXPECT_EQ(redis_key(format, std::string(129, 'x'), 1),
              "rl:{per_ip:%0ec9eb33e74510bcdd1f2ea55206e82f21649c5c2becbf2b433eb475b34c01bd%#1/8}"
              ":sliding_log:60000");
}

TEST(Key, IsNoShardThatAClientCanSpell) {
    Rule rule = per_ip();
    rule.shards = 8;
    const KeyFormat format("rl:", rule);
    const std::string shard = redis_key(format, "a", 1);
    for (const char *spelled : {"a%#1/8", "a%1/8", "a#1/8", "a/8", "a"}) {
        EXPECT_NE(redis_key(format, spelled), shard) << spelled;
        EXPECT_NE(redis_key(format, spelled, 0), shard) << spelled;
    }
    EXPECT_NE(redis_key(format, "a", 10), redis_key(format, "a1", 0));
}

std::optional<std::string> decoded_key(std::string_view encoded_key) {
    std::array<char, 128> out;
    const auto key = decode_client_key(encoded_key, out);
    return key ? std::optional(std::string(*key)) : std::nullopt;
}

TEST(EncodedKey, IsReadBack) {
    for (const std::string_view key : {"203.0.113.7", "a b{c}%d", "\xff\x01", "+", ""}) {
        EXPECT_EQ(decoded_key(encoded(key)), key);
    }
    EXPECT_EQ(decoded_key(encoded("\0/%"s)), "\0/%"s);
    EXPECT_EQ(decoded_key(encoded(std::string(128, 'x'))), std::string(128, 'x'));
}

TEST(EncodedKey, IsNotReadBackIfItIsADigestOrOfSomebodyElse) {
    const std::string digest = encoded(std::string(129, 'x'));
    EXPECT_EQ(decoded_key(digest), std::nullopt);
    EXPECT_EQ(digest_in(digest), std::string_view(digest).substr(1));
    for (const std::string_view foreign : {"%", "%4", "%41", "%ab", "a b", "{", "%zz"}) {
        EXPECT_EQ(decoded_key(foreign), std::nullopt) << foreign;
    }
    EXPECT_EQ(decoded_key(std::string(129, 'x')), std::nullopt);
}

TEST(EncodedKey, IsADigestOnlyInFull) {
    const std::string hex(64, 'a');
    EXPECT_EQ(digest_in("%" + hex), hex);
    for (const std::string &other : {hex, "%" + hex + "a", "%" + hex.substr(1),
                                     "%A" + hex.substr(1), "%g" + hex.substr(1), ""s}) {
        EXPECT_EQ(digest_in(other), std::nullopt) << other;
    }
}

TEST(EncodedKey, GivesTheRedisKeyOfItsClientKey) {
    Rule rule = per_ip();
    rule.shards = 4;
    const KeyFormat format("rl:", rule);
    for (const std::string &key : {"a"s, "{\0}"s, std::string(1000, 'x')}) {
        RedisKeyBuffer out;
        EXPECT_EQ(format.write_encoded(encoded(key), out), redis_key(format, key));
        EXPECT_EQ(format.write_encoded(encoded(key), 3, out), redis_key(format, key, 3));
    }
}

} // namespace
} // namespace rate_limit
