#include "redis_client/control/counter_deletion.hpp"

#include "rate_limit/text/key.hpp"
#include "redis_client/wire/hash_slot.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace {

using redis_client::ByteQueue;
using redis_client::CounterDeletion;
using redis_client::CounterOwner;
using redis_client::CounterPortion;

constexpr CounterOwner owner{.prefix = "rl:", .zone = "z", .encoded_key = "k"};

/// The words of a command.
std::vector<std::string> words_of(const ByteQueue &queue) {
    std::vector<std::string> words;
    std::string_view rest = queue.bytes();
    rest.remove_prefix(rest.find('\n') + 1);
    while (!rest.empty()) {
        const size_t size = std::stoul(std::string(rest.substr(1)));
        rest.remove_prefix(rest.find('\n') + 1);
        words.emplace_back(rest.substr(0, size));
        rest.remove_prefix(size + 2);
    }
    return words;
}

std::vector<std::string> words_of(const CounterPortion &portion) {
    ByteQueue queue;
    EXPECT_TRUE(redis_client::write_deletion(queue, portion, owner));
    return words_of(queue);
}

using Words = std::vector<std::string>;

TEST(CounterDeletionTest, ACounterAndItsBlock) {
    CounterDeletion deletion;
    EXPECT_TRUE(deletion.add("gcra:60000:a", 1));
    deletion.begin();
    const auto portion = deletion.next();
    ASSERT_TRUE(portion);
    EXPECT_EQ(words_of(*portion),
              (Words{"UNLINK", "rl:{z:k}:gcra:60000:a", "rl:{z:k}:gcra:60000:a#block"}));
    EXPECT_FALSE(deletion.next());
}

TEST(CounterDeletionTest, OneByOne) {
    CounterDeletion deletion;
    EXPECT_TRUE(deletion.add("gcra:1", 2));
    EXPECT_TRUE(deletion.add("gcra:2", 2));
    deletion.begin();
    (void)deletion.next();
    const CounterPortion portion = *deletion.next();
    Words single;
    for (size_t key = 0; key < portion.key_count(); ++key) {
        ByteQueue queue;
        EXPECT_TRUE(redis_client::write_deletion(queue, portion, owner, key));
        const Words words = words_of(queue);
        ASSERT_EQ(words.size(), 2);
        single.push_back(words[1]);
    }
    EXPECT_EQ(single, (Words{"rl:{z:k%#1/2}:gcra:1", "rl:{z:k%#1/2}:gcra:1#block",
                             "rl:{z:k%#1/2}:gcra:2", "rl:{z:k%#1/2}:gcra:2#block"}));
}

TEST(CounterDeletionTest, EachKeyOnceInPortionsOfOneHashSlot) {
    CounterDeletion deletion;
    size_t keys = 0;
    for (size_t i = 0; i < 1000; ++i) {
        const std::string name = "fixed_window:1000:r" + std::to_string(i % 500);
        const uint64_t shards = 1 + i % 5;
        EXPECT_TRUE(deletion.add(name, shards));
        keys += i < 500 ? 2 * shards : 0; // the others are the same ones
    }
    deletion.begin();
    std::set<std::string> seen;
    while (const auto portion = deletion.next()) {
        const Words words = words_of(*portion);
        EXPECT_LE(words.size(), 1 + 2 * CounterPortion::most_counters);
        for (size_t i = 1; i < words.size(); ++i) {
            EXPECT_TRUE(seen.insert(words[i]).second) << words[i];
            EXPECT_EQ(redis_client::hash_slot(words[i]),
                      redis_client::hash_slot_of(*portion, owner));
        }
    }
    EXPECT_EQ(seen.size(), keys);
}

TEST(CounterDeletionTest, OneNameMayHaveShardsAndNone) {
    CounterDeletion deletion;
    for (const uint64_t shards : {2, 1, 2}) {
        EXPECT_TRUE(deletion.add("gcra:1", shards));
    }
    deletion.begin();
    EXPECT_EQ(words_of(*deletion.next())[1], "rl:{z:k}:gcra:1");
    EXPECT_EQ(words_of(*deletion.next())[1], "rl:{z:k%#0/2}:gcra:1");
    EXPECT_EQ(words_of(*deletion.next())[1], "rl:{z:k%#1/2}:gcra:1");
    EXPECT_FALSE(deletion.next());
}

TEST(CounterDeletionTest, WhatIsNoCounterIsLeftOut) {
    CounterDeletion deletion;
    EXPECT_TRUE(deletion.add("gcra", 1));
    EXPECT_TRUE(deletion.add("gcra:1:" + std::string(500, 'n'), 1));
    EXPECT_TRUE(deletion.add("gcra:1", 0));
    EXPECT_TRUE(deletion.add("gcra:1", 65));
    deletion.begin();
    EXPECT_FALSE(deletion.next());
}

TEST(CounterDeletionTest, ThereIsABound) {
    CounterDeletion deletion;
    for (size_t i = 0; i < CounterDeletion::most_counters; ++i) {
        EXPECT_TRUE(deletion.add("gcra:" + std::to_string(i + 1), 64));
    }
    EXPECT_FALSE(deletion.add("gcra:5000000", 64));
    EXPECT_TRUE(deletion.add("none of ours", 64));
    deletion.begin();
    size_t portions = 0;
    for (; deletion.next(); ++portions) {
    }
    EXPECT_EQ(portions, 64 * CounterDeletion::most_counters / CounterPortion::most_counters);
}

} // namespace
