#include "rate_limit/tables/top_keys.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace rate_limit {
namespace {

constexpr HashSeed seed{1, 2};

class TopKeysTest : public testing::Test {
  protected:
    struct alignas(uint64_t) Bytes : std::array<std::byte, TopKeys::memory_size> {};
    Bytes bytes_{};
    TopKeys keys_{bytes_};
    TopKeys::Kept kept_ = TopKeys::Kept::keys;

    void count(const std::string &key, int times = 1) {
        for (int i = 0; i < times; ++i) {
            keys_.count(seed, kept_, key);
        }
    }
    std::vector<std::pair<std::string, uint64_t>> kept() const {
        TopKeys::Buffer buffer;
        std::vector<std::pair<std::string, uint64_t>> all;
        for (const TopKeys::Counted &counted : keys_.read(kept_, buffer)) {
            all.emplace_back(counted.key(), counted.rejected);
        }
        return all;
    }
};

struct Shown {
    std::string key;
    bool is_cut;
    uint64_t rejected;
    bool operator==(const Shown &) const = default;
};

using Kept = std::vector<std::pair<std::string, uint64_t>>;

TEST_F(TopKeysTest, KeepsNoneAtFirst) {
    EXPECT_EQ(kept(), Kept());
}

TEST_F(TopKeysTest, CountsExactlyWhileAllHaveAPlace) {
    Kept expected;
    for (int i = 0; i < static_cast<int>(TopKeys::capacity); ++i) {
        count("key " + std::to_string(i), 1000 - i);
        expected.emplace_back("key " + std::to_string(i), 1000 - i);
    }
    EXPECT_EQ(kept(), expected);
}

TEST_F(TopKeysTest, OfAnyBytesOfWhichTheFirstAreKept) {
    const std::string zeros(3, '\0');
    const std::string longest(TopKeys::longest_key, 'x');
    count("", 4);
    count(zeros, 3);
    count(longest + "a");
    count(longest + "b");
    count(longest.substr(1));
    EXPECT_EQ(kept(), (Kept{{"", 4}, {zeros, 3}, {longest, 2}, {longest.substr(1), 1}}));
}

TEST_F(TopKeysTest, TellsWhatWasCutFromAWholeKeyOfTheSameBytes) {
    const std::string longest(TopKeys::longest_key, 'x');
    for (int i = 0; i < 3; ++i) {
        count(longest + "a");
        count(longest + "b");
        count(longest);
    }
    TopKeys::Buffer buffer;
    std::vector<Shown> shown;
    for (const TopKeys::Counted &counted : keys_.read(kept_, buffer)) {
        shown.push_back({std::string(counted.key()), counted.is_cut, counted.rejected});
    }
    EXPECT_EQ(shown, (std::vector<Shown>{{longest, true, 6}, {longest, false, 3}}));
}

TEST_F(TopKeysTest, ANewKeyTakesThePlaceOfTheLeastAndCountsFromThere) {
    for (int i = 0; i < static_cast<int>(TopKeys::capacity); ++i) {
        count("key " + std::to_string(i), 10 + i);
    }
    count("new", 2);
    const Kept all = kept();
    EXPECT_EQ(all.size(), TopKeys::capacity);
    EXPECT_EQ(all.back(), std::pair(std::string("new"), uint64_t{2}));
    EXPECT_EQ(all[all.size() - 2].first, "key 1") << "key 0 was the least";
}

TEST_F(TopKeysTest, FindsTheHeavyOnesAmongManyOthers) {
    std::minstd_rand random(1);
    std::map<std::string, uint64_t> heavy;
    for (int i = 0; i < 200'000; ++i) {
        const unsigned chance = random() % 100;
        if (chance < 20) { // ten keys have 2 % each
            const std::string key = "heavy " + std::to_string(chance % 10);
            ++heavy[key];
            count(key);
        } else {
            count("light " + std::to_string(random()));
        }
    }
    const Kept all = kept();
    const std::map<std::string, uint64_t> found(all.begin(), all.end());
    for (size_t i = 0; i < heavy.size(); ++i) {
        EXPECT_TRUE(all[i].first.starts_with("heavy")) << all[i].first;
    }
    for (const auto &[key, times] : heavy) {
        ASSERT_TRUE(found.contains(key)) << key;
        EXPECT_LE(found.at(key), times) << "never more than there were";
        EXPECT_GE(found.at(key) * 2, times) << key;
    }
}

// A process may be killed between any two of its stores, and leave the memory so.
TEST_F(TopKeysTest, AHalfWrittenPlaceIsTakenForNoneUntilItsKeyComesAgain) {
    count("first", 5);
    const Bytes before = bytes_;
    count("second", 3);
    const Bytes after = bytes_;
    constexpr size_t word = sizeof(uint64_t);
    for (size_t written = 0; written < sizeof(Bytes); written += word) {
        bytes_ = before;
        std::memcpy(bytes_.data(), after.data(), written);
        const auto is_known = [](const auto &one) {
            return one == std::pair(std::string("first"), uint64_t{5}) ||
                   (one.first == "second" && one.second <= 3);
        };
        const Kept all = kept();
        EXPECT_TRUE(std::ranges::all_of(all, is_known)) << written;
        count("second");
        EXPECT_EQ(kept().size(), 2) << written;
    }
}

TEST_F(TopKeysTest, GarbageIsNotShownAndGivesWay) {
    std::minstd_rand random(2);
    constexpr size_t what_is_kept = sizeof(uint64_t); // it stands at the end, and is known
    for (std::byte &byte : std::span(bytes_).first(bytes_.size() - what_is_kept)) {
        byte = static_cast<std::byte>(random());
    }
    EXPECT_EQ(kept(), Kept());
    count("key", 2);
    EXPECT_EQ(kept(), (Kept{{"key", 2}}));
}

TEST_F(TopKeysTest, AKeyWithTwoPlacesIsShownOnce) {
    count("other");
    count("key", 2);
    const Bytes before = bytes_;
    bytes_ = {};
    count("key", 3);
    Bytes both = before; // the place of `other` becomes one of `key`
    constexpr size_t word = sizeof(uint64_t);
    constexpr size_t counts = TopKeys::capacity * word;
    constexpr size_t places = 2 * counts;
    constexpr size_t place_size = (TopKeys::memory_size - places) / TopKeys::capacity;
    std::memcpy(both.data(), bytes_.data(), word);
    std::memcpy(both.data() + counts, bytes_.data() + counts, word);
    std::memcpy(both.data() + places, bytes_.data() + places, place_size);
    bytes_ = both;
    EXPECT_EQ(kept(), (Kept{{"key", 5}}));
}

TEST_F(TopKeysTest, NoneAreKeptUntilTheyAreAgain) {
    count("key", 2);
    keys_.set_kept(TopKeys::Kept::nothing);
    EXPECT_EQ(std::ranges::count(bytes_, std::byte{0}), bytes_.size() - 1) << "but that it is so";
    count("key");
    keys_.set_kept(TopKeys::Kept::keys);
    EXPECT_EQ(kept(), Kept());
    count("key", 2);
    keys_.set_kept(TopKeys::Kept::keys);
    EXPECT_EQ(kept(), (Kept{{"key", 2}}));
}

TEST_F(TopKeysTest, KeysGoWhenOnlyHashesAreKept) {
    count("key", 2);
    keys_.set_kept(TopKeys::Kept::hashes);
    EXPECT_EQ(std::ranges::count(bytes_, std::byte{0}), bytes_.size() - 1) << "but what is kept";
    count("key"); // a worker whose configuration is older counts
    EXPECT_EQ(kept(), Kept());
    kept_ = TopKeys::Kept::hashes;
    EXPECT_EQ(kept(), Kept());
    count("hash", 2);
    EXPECT_EQ(kept(), (Kept{{"hash", 2}}));
    keys_.set_kept(TopKeys::Kept::keys);
    EXPECT_EQ(std::ranges::count(bytes_, std::byte{0}), bytes_.size());
}

// A worker may look at what is kept, and write a key only after another one has changed that.
TEST_F(TopKeysTest, AKeyIsNeverTakenForAHash) {
    count("key", 2);
    constexpr size_t word = sizeof(uint64_t);
    const auto hashes = static_cast<uint64_t>(TopKeys::Kept::hashes);
    std::memcpy(bytes_.data() + bytes_.size() - word, &hashes, word);
    kept_ = TopKeys::Kept::hashes;
    EXPECT_EQ(kept(), Kept());
    count("key");
    EXPECT_EQ(kept(), (Kept{{"key", 1}})) << "the same text, as a hash, begins anew";
}

TEST_F(TopKeysTest, ManyAtTheSameTime) {
    constexpr int rounds = 5'000;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&, thread] {
            const TopKeys mine(bytes_);
            for (int i = 0; i < rounds; ++i) {
                mine.count(seed, kept_, "all");
                mine.count(seed, kept_, std::to_string(thread) + " " + std::to_string(i));
            }
        });
    }
    for (int i = 0; i < 100; ++i) {
        for (const auto &[key, rejected] : kept()) {
            EXPECT_LE(rejected, 8 * rounds) << key;
        }
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    count("all");
    const Kept all = kept();
    ASSERT_FALSE(all.empty());
    EXPECT_EQ(all.front().first, "all");
    EXPECT_GT(all.front().second, 3 * rounds);
}

} // namespace
} // namespace rate_limit
