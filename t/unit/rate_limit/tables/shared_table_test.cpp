#include "shared_table_test.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;

class SharedTableTest : public testing::Test {
  protected:
    OneBucket bucket_{};
    SharedTable table_ = bucket_.table();
};

Record record(microseconds time, microseconds holds_for, uint64_t number = 1) {
    return {.time = time,
            .holds_for = holds_for,
            .values = {number, ~number, number << 32, number * number}};
}

TEST_F(SharedTableTest, FindsNothingAtFirst) {
    for (const Hash &any : {Hash{0, 0}, Hash{1, 0}, Hash{0, 1}, hash(1)}) {
        EXPECT_EQ(table_.find(any, microseconds{0}), std::nullopt);
        EXPECT_EQ(table_.find(any, start), std::nullopt);
    }
}

TEST_F(SharedTableTest, FindsWhatWasStoredWhileItHolds) {
    for (const microseconds holds_for : {1us, 1500us, microseconds{1s}, microseconds{an_hour}}) {
        const Record stored = record(start, holds_for);
        table_.store(hash(1), stored);
        EXPECT_EQ(table_.find(hash(1), start), stored);
        EXPECT_EQ(table_.find(hash(1), start + holds_for - 1us), stored);
        EXPECT_EQ(table_.find(hash(1), start + holds_for), std::nullopt) << holds_for.count();
        EXPECT_EQ(table_.find(hash(1), start + 1000h), std::nullopt);
    }
}

// A process that reads the clock and is then overtaken finds what was stored meanwhile.
TEST_F(SharedTableTest, FindsWhatWasStoredALittleLater) {
    const Record stored = record(start, 1s);
    table_.store(hash(1), stored);
    EXPECT_EQ(table_.find(hash(1), start - 1us), stored);
}

TEST_F(SharedTableTest, ForgetsWhatHoldsNoLonger) {
    table_.store(hash(1), record(start, an_hour));
    table_.store(hash(1), record(start, 0us));
    EXPECT_EQ(table_.find(hash(1), start), std::nullopt);
}

TEST_F(SharedTableTest, ARecordThatEndsBeforeItsTimeHoldsNever) {
    for (const microseconds holds_for : {-1us, -microseconds{start}, -microseconds{start} - 1us}) {
        table_.store(hash(1), record(start, an_hour));
        table_.store(hash(1), record(start, holds_for));
        EXPECT_EQ(table_.find(hash(1), start), std::nullopt) << holds_for.count();
        EXPECT_EQ(table_.count(start), 0u) << holds_for.count();
    }
}

TEST_F(SharedTableTest, FindsNoOtherHash) {
    table_.store(hash(1), record(start, an_hour));
    const auto [low, high] = hash(1);
    for (int bit = 0; bit < 64; ++bit) {
        EXPECT_FALSE(table_.find({low ^ uint64_t{1} << bit, high}, start));
        EXPECT_FALSE(table_.find({low, high ^ uint64_t{1} << bit}, start));
    }
}

TEST_F(SharedTableTest, KeepsTheLastRecordOfAHash) {
    for (uint64_t number = 1; number <= 8; ++number) {
        table_.store(hash(number), record(start, an_hour, number));
    }
    table_.store(hash(5), record(start + 1s, an_hour, 7));
    for (uint64_t number = 1; number <= 8; ++number) {
        EXPECT_EQ(table_.find(hash(number), start),
                  number == 5 ? record(start + 1s, an_hour, 7) : record(start, an_hour, number));
    }
}

TEST_F(SharedTableTest, KeepsRecordsOfHashesWithTheSameTagApart) {
    const Hash other{hash(1).low, hash(2).high};
    table_.store(hash(1), record(start, an_hour, 1));
    table_.store(other, record(start, an_hour, 2));
    EXPECT_EQ(table_.find(hash(1), start), record(start, an_hour, 1));
    EXPECT_EQ(table_.find(other, start), record(start, an_hour, 2));
}

TEST_F(SharedTableTest, RemovesARecordWhateverItsHash) {
    for (const uint64_t low : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 16, hash(1).low}) {
        const Hash one{low, hash(1).high};
        table_.store(one, record(start, an_hour));
        EXPECT_TRUE(table_.find(one, start)) << low;
        table_.erase_if(0, [](const Record &) { return true; });
        EXPECT_FALSE(table_.find(one, start)) << low;
    }
}

TEST_F(SharedTableTest, ReplacesTheRecordOfAHashWhoseTagWasNotWritten) {
    for (uint64_t number = 1; number <= SharedTable::entries_of_bucket; ++number) {
        table_.store(hash(number), record(start, an_hour, number));
    }
    for (auto &tag : bucket_.tags) {
        tag = tag == static_cast<uint16_t>(hash(5).low) ? 0 : tag.load();
    }
    table_.store(hash(5), record(start, an_hour, 7));
    for (uint64_t number = 1; number <= SharedTable::entries_of_bucket; ++number) {
        EXPECT_EQ(table_.find(hash(number), start),
                  record(start, an_hour, number == 5 ? 7 : number));
    }
}

TEST_F(SharedTableTest, TellsWhenARecordThatHeldWasLost) {
    constexpr uint64_t full = SharedTable::entries_of_bucket;
    for (uint64_t number = 1; number <= full; ++number) {
        EXPECT_TRUE(table_.store(hash(number), record(start, number == 6 ? 1s : 100s)));
    }
    EXPECT_TRUE(table_.store(hash(1), record(start + 1ms, 100s))) << "its own";
    EXPECT_TRUE(table_.store(hash(full + 1), record(start + 2s, 100s))) << "one that has ended";
    EXPECT_FALSE(table_.store(hash(full + 2), record(start + 2s, 100s)));
}

TEST_F(SharedTableTest, CountsWhatHolds) {
    EXPECT_EQ(table_.capacity(), SharedTable::entries_of_bucket);
    EXPECT_EQ(table_.count(start), 0);
    for (uint64_t number = 1; number <= 10; ++number) {
        table_.store(hash(number), record(start, number <= 4 ? 1s : 100s));
    }
    EXPECT_EQ(table_.count(start), 10);
    EXPECT_EQ(table_.count(start + 1s), 6);
    EXPECT_EQ(table_.count(start + 100s), 0);
    EXPECT_EQ(SharedTable().count(start), 0);
}

TEST_F(SharedTableTest, EstimatesHowManyHoldInALargeTable) {
    for (const size_t size : {1000, 1024, 1025, 1900}) {
        std::vector<OneBucket> buckets(size);
        SharedTable table{std::as_writable_bytes(std::span(buckets))};
        std::mt19937_64 random{1};
        const size_t stored = size * 10; // each bucket holds 32, so that none overflows
        for (size_t i = 0; i < stored; ++i) {
            table.store({random(), random()}, record(start, 10s));
        }
        const size_t counted = table.count(start);
        const size_t off = size <= 1024 ? 0 : stored / 50;
        EXPECT_GE(counted, stored - off);
        EXPECT_LE(counted, stored + off);
    }
}

TEST_F(SharedTableTest, GivesUpOneOfTheOldest) {
    constexpr uint64_t full = SharedTable::entries_of_bucket;
    std::set<uint64_t> lost;
    for (uint64_t another = full + 1; another <= full + 200; ++another) {
        OneBucket bucket{};
        SharedTable table = bucket.table();
        // 5 is no factor of full + 1, so that the numbers are 1 to full in another order.
        for (uint64_t i = 1; i <= full; ++i) {
            const uint64_t number = i * 5 % (full + 1);
            table.store(hash(number), record(start + microseconds(number), 100s));
        }
        EXPECT_FALSE(table.store(hash(another), record(start + 1s, 100s)));
        uint64_t found = 0;
        for (uint64_t number = 1; number <= full; ++number) {
            if (table.find(hash(number), start + 1s)) {
                ++found;
            } else {
                lost.insert(number);
            }
        }
        EXPECT_EQ(found, full - 1);
    }
    EXPECT_EQ(lost, (std::set<uint64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST_F(SharedTableTest, KeepsMostOfThoseThatComeInTurns) {
    constexpr uint64_t too_many = SharedTable::entries_of_bucket + 2;
    constexpr uint64_t turns = 100;
    uint64_t found = 0;
    for (uint64_t turn = 1; turn <= turns; ++turn) {
        for (uint64_t number = 1; number <= too_many; ++number) {
            const microseconds now = start + microseconds(turn * too_many + number);
            if (table_.find(hash(number), now)) {
                ++found;
            } else {
                table_.store(hash(number), record(now, 100s));
            }
        }
    }
    EXPECT_GT(found, turns * too_many * 3 / 4);
}

TEST_F(SharedTableTest, GivesUpWhatHasEndedFirst) {
    constexpr uint64_t full = SharedTable::entries_of_bucket;
    for (uint64_t number = 1; number <= full; ++number) {
        const microseconds holds_for = number == 6 ? 1s : 100s;
        table_.store(hash(number), record(start + microseconds(number), holds_for));
    }
    table_.store(hash(full + 1), record(start + 2s, 100s));
    for (uint64_t number = 1; number <= full + 1; ++number) {
        EXPECT_EQ(table_.find(hash(number), start + 2s).has_value(), number != 6) << number;
    }
}

TEST_F(SharedTableTest, UsesAllItsBuckets) {
    std::vector<OneBucket> buckets(100);
    SharedTable table{std::as_writable_bytes(std::span(buckets))};
    std::mt19937_64 random{1};
    std::vector<Hash> hashes;
    for (uint64_t i = 0; i < buckets.size() * 4; ++i) {
        hashes.push_back({random(), random()});
    }
    hashes.push_back({1, 0}); // the first bucket, and the last
    hashes.push_back({1, UINT64_MAX});
    for (const Hash &one : hashes) {
        table.store(one, record(start, 10s));
    }
    size_t found = 0;
    for (const Hash &one : hashes) {
        found += table.find(one, start) ? 1 : 0;
    }
    EXPECT_GT(found, hashes.size() * 95 / 100);
    EXPECT_TRUE(table.find(hashes.back(), start));
}

TEST_F(SharedTableTest, FindsNothingInGarbage) {
    std::mt19937_64 random{1};
    const uint64_t known[] = {
        0, 1, UINT64_MAX, static_cast<uint64_t>(start.count()), hash(1).low, hash(1).high};
    for (int round = 0; round < 20'000; ++round) {
        const Hash other{random(), hash(1).high};
        for (size_t i = 0; i < SharedTable::entries_of_bucket; ++i) { // the loop reaches each entry
            bucket_.tags[i] = static_cast<uint16_t>((i % 2 == 0 ? hash(1) : other).low);
        }
        for (SharedTable::Entry &entry : bucket_.entries) {
            for (auto &word : entry.words) {
                word = random() % 2 == 0 ? random() : known[random() % std::size(known)];
            }
            entry.words[1] = hash(1).high;
        }
        EXPECT_FALSE(table_.find(hash(1), start));
        EXPECT_FALSE(table_.find(other, start));
        table_.store(hash(2), record(start, 1s)); // this does no harm
        EXPECT_EQ(table_.find(hash(2), start), record(start, 1s));
    }
}

/// The words of an entry in a table of its own.
std::array<uint64_t, 8> words_of(const Hash &its_hash, const Record &stored) {
    OneBucket bucket{};
    bucket.table().store(its_hash, stored);
    std::array<uint64_t, 8> words{};
    for (const SharedTable::Entry &entry : bucket.entries) {
        if (entry.words[1] == its_hash.high) {
            for (size_t i = 0; i < words.size(); ++i) {
                words[i] = entry.words[i];
            }
        }
    }
    return words;
}

// A process that writes may be killed, or overtaken by a reader or another writer, after any store.
TEST_F(SharedTableTest, FindsNoEntryThatIsTorn) {
    const Hash first = hash(1);
    const Hash others[] = {hash(2), {hash(2).low, first.high}, first};
    const Record old_record = record(start, 100s, 1);
    const Record new_record = record(start + 1s, 50s, 2);
    const auto old_words = words_of(first, old_record);
    for (const Hash &second : others) {
        const auto new_words = words_of(second, new_record);
        for (unsigned mask = 1; mask < 255;
             ++mask) { // some words are of the one, the rest of the other
            std::array<uint64_t, 8> mixed{};
            for (size_t i = 0; i < mixed.size(); ++i) {
                mixed[i] = (mask >> i & 1) != 0 ? new_words[i] : old_words[i];
                bucket_.entries[3].words[i] = mixed[i];
            }
            for (const Hash &wanted : {first, second}) {
                bucket_.tags[3] = static_cast<uint16_t>(wanted.low);
                if (const auto found = table_.find(wanted, start + 1s)) {
                    // then the words that were mixed are the same in both
                    EXPECT_EQ(mixed, found == old_record ? old_words : new_words) << mask;
                    EXPECT_TRUE(found == old_record || found == new_record) << mask;
                }
            }
        }
    }
}

TEST_F(SharedTableTest, FindsOnlyWhatWasStoredAsAWholeWhileOthersWrite) {
    constexpr uint64_t keys = SharedTable::entries_of_bucket + 4; // more than the bucket holds
    std::atomic<bool> is_over{false};
    const auto record_of = [](uint64_t key, uint64_t number) {
        return record(start + microseconds(number), 1000s, number * keys + key);
    };
    const auto write = [&](uint64_t seed) {
        std::mt19937_64 random{seed};
        for (int i = 0; i < 200'000; ++i) {
            const uint64_t key = random() % keys;
            table_.store(hash(key), record_of(key, random() % 1000));
        }
        is_over = true;
    };
    uint64_t found = 0;
    uint64_t wrong = 0;
    std::thread one(write, 1);
    std::thread other(write, 2);
    std::mt19937_64 random{3};
    while (!is_over) {
        const uint64_t key = random() % keys;
        if (const auto record = table_.find(hash(key), start)) {
            ++found;
            wrong += record == record_of(key, record->values[0] / keys) ? 0 : 1;
        }
    }
    one.join();
    other.join();
    EXPECT_EQ(wrong, 0u);
    EXPECT_GT(found, 100u);
}

} // namespace
} // namespace rate_limit
