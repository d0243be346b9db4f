#include "deny_table_test.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;

class DenyTableTest : public testing::Test {
  protected:
    OneBucket bucket_{};
    DenyTable table_ = bucket_.table();
};

Verdict denied(microseconds retry_after, uint64_t remaining = 0) {
    return {.decision = Decision::denied,
            .remaining = remaining,
            .retry_after = retry_after,
            .next_unit = retry_after / 2,
            .reset = retry_after * 2};
}

TEST_F(DenyTableTest, FindsNothingAtFirst) {
    for (const Hash &any : {Hash{0, 0}, Hash{1, 0}, Hash{0, 1}, hash(1)}) {
        EXPECT_EQ(table_.find(any, microseconds{0}, an_hour), std::nullopt);
        EXPECT_EQ(table_.find(any, start, an_hour), std::nullopt);
    }
}

TEST_F(DenyTableTest, FindsADenialUntilItsTimeLessDrift) {
    for (const microseconds wait : {microseconds{2}, microseconds{1500}, microseconds{1s},
                                    microseconds{60s}, microseconds{10min}}) {
        const microseconds held = wait - wait / 1000 - 1us;
        table_.add(hash(1), denied(wait), at(start));
        EXPECT_TRUE(table_.find(hash(1), start, an_hour));
        EXPECT_TRUE(table_.find(hash(1), start + held - 1us, an_hour)) << wait.count();
        EXPECT_FALSE(table_.find(hash(1), start + held, an_hour)) << wait.count();
        EXPECT_FALSE(table_.find(hash(1), start + wait, an_hour));
        EXPECT_FALSE(table_.find(hash(1), start + 1000h, an_hour));
        EXPECT_FALSE(table_.find(hash(1), start - 1us, an_hour)); // before it was asked for
    }
}

TEST_F(DenyTableTest, KnowsADenialForTheLongestTimeAtMost) {
    table_.add(hash(1), denied(10min), at(start));
    EXPECT_TRUE(table_.find(hash(1), start + 60s - 1us, 60s));
    EXPECT_FALSE(table_.find(hash(1), start + 60s, 60s));
    EXPECT_TRUE(table_.find(hash(1), start + 60s, 61s)); // whoever asks says how long that is
}

TEST_F(DenyTableTest, KeepsNoDenialThatEndsAtOnce) {
    table_.add(hash(1), denied(0us), at(start));
    table_.add(hash(1), denied(1us), at(start));
    table_.add(hash(1), {.decision = Decision::never}, at(start));
    EXPECT_FALSE(table_.find(hash(1), start, an_hour));
}

TEST_F(DenyTableTest, CountsDown) {
    table_.add(hash(1), denied(10s, 3), at(start));
    EXPECT_EQ(table_.find(hash(1), start, an_hour), denied(10s, 3));
    const microseconds passed = 4s - 4ms - 1us; // at least, by Redis's clock
    EXPECT_EQ(table_.find(hash(1), start + 4s, an_hour), (Verdict{.decision = Decision::denied,
                                                                  .remaining = 3,
                                                                  .retry_after = 10s - passed,
                                                                  .next_unit = 5s - passed,
                                                                  .reset = 20s - passed}));
    EXPECT_EQ(table_.find(hash(1), start + 7s, an_hour)->next_unit, 1us); // and no less
}

// Redis may have decided just before it answered: whoever waits from then on has waited enough.
TEST_F(DenyTableTest, HoldsFromAskingAndTellsTimesFromTheAnswer) {
    table_.add(hash(1), denied(10s), {.asked = start, .answered = start + 1s});
    const auto found = table_.find(hash(1), start + 1s, an_hour);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->retry_after, 10s + 1ms + 1us);
    EXPECT_EQ(found->next_unit, 5s + 1ms + 1us);
    EXPECT_EQ(found->reset, 20s + 1ms + 1us);
    EXPECT_TRUE(table_.find(hash(1), start + 9s, an_hour));
    EXPECT_FALSE(table_.find(hash(1), start + 10s, an_hour));
}

TEST_F(DenyTableTest, FindsNoOtherHash) {
    table_.add(hash(1), denied(10s), at(start));
    const auto [low, high] = hash(1);
    for (int bit = 0; bit < 64; ++bit) {
        EXPECT_FALSE(table_.find({low ^ uint64_t{1} << bit, high}, start, an_hour));
        EXPECT_FALSE(table_.find({low, high ^ uint64_t{1} << bit}, start, an_hour));
    }
}

TEST_F(DenyTableTest, KeepsTheLastDenialOfAHash) {
    for (uint64_t number = 1; number <= 8; ++number) {
        table_.add(hash(number), denied(10s), at(start));
    }
    table_.add(hash(5), denied(20s, 7), at(start + 1s));
    EXPECT_EQ(table_.find(hash(5), start + 1s, an_hour), denied(20s, 7));
    for (uint64_t number = 1; number <= 8; ++number) {
        EXPECT_TRUE(table_.find(hash(number), start + 1s, an_hour)) << number;
    }
}

TEST_F(DenyTableTest, GivesUpTheOldestOfABucket) {
    constexpr uint64_t full = DenyTable::entries_of_bucket;
    // 5 is no factor of full + 1, so that the times are 1 to full in another order.
    const auto time_of = [](uint64_t number) { return microseconds(number * 5 % (full + 1)); };
    for (uint64_t number = 1; number <= full; ++number) {
        table_.add(hash(number), denied(100s), at(start + time_of(number)));
    }
    for (uint64_t gone = 1; gone <= full; ++gone) {
        table_.add(hash(100 + gone), denied(100s), at(start + 1s + microseconds(gone)));
        for (uint64_t number = 1; number <= full; ++number) {
            EXPECT_EQ(table_.find(hash(number), start + 2s, an_hour).has_value(),
                      time_of(number) > microseconds(gone))
                << gone;
        }
    }
}

TEST_F(DenyTableTest, GivesUpWhatHasEndedBeforeTheOldest) {
    constexpr uint64_t full = DenyTable::entries_of_bucket;
    for (uint64_t number = 1; number <= full; ++number) {
        const microseconds wait = number == 6 ? 1s : 100s;
        table_.add(hash(number), denied(wait), at(start + microseconds(number)));
    }
    table_.add(hash(full + 1), denied(100s), at(start + 2s));
    for (uint64_t number = 1; number <= full + 1; ++number) {
        EXPECT_EQ(table_.find(hash(number), start + 2s, an_hour).has_value(), number != 6)
            << number;
    }
}

TEST_F(DenyTableTest, UsesAllItsBuckets) {
    std::vector<OneBucket> buckets(100);
    DenyTable table{std::as_writable_bytes(std::span(buckets))};
    std::mt19937_64 random{1};
    std::vector<Hash> hashes;
    for (uint64_t i = 0; i < buckets.size() * 4; ++i) {
        hashes.push_back({random(), random()});
        table.add(hashes.back(), denied(10s), at(start));
    }
    hashes.push_back({1, 0}); // the first bucket, and the last
    hashes.push_back({1, UINT64_MAX});
    table.add(hashes[hashes.size() - 2], denied(10s), at(start));
    table.add(hashes.back(), denied(10s), at(start));
    size_t found = 0;
    for (const Hash &one : hashes) {
        found += table.find(one, start, an_hour) ? 1 : 0;
    }
    EXPECT_GT(found, hashes.size() * 95 / 100);
    EXPECT_TRUE(table.find(hashes.back(), start, an_hour));
}

TEST_F(DenyTableTest, FindsNothingInGarbage) {
    std::mt19937_64 random{1};
    const uint64_t known[] = {
        0, 1, UINT64_MAX, static_cast<uint64_t>(start.count()), hash(1).low, hash(1).high};
    for (int round = 0; round < 20'000; ++round) {
        const Hash other{random(), hash(1).high};
        for (size_t i = 0; i < DenyTable::entries_of_bucket; ++i) { // so that each is looked at
            bucket_.tags[i] = static_cast<uint16_t>((i % 2 == 0 ? hash(1) : other).low);
        }
        for (DenyTable::Entry &entry : bucket_.entries) {
            for (auto &word : entry.words) {
                word = random() % 2 == 0 ? random() : known[random() % std::size(known)];
            }
            entry.words[1] = hash(1).high;
        }
        EXPECT_FALSE(table_.find(hash(1), start, an_hour));
        EXPECT_FALSE(table_.find(other, start, an_hour));
        table_.add(hash(2), denied(1s), at(start)); // does no harm
        EXPECT_TRUE(table_.find(hash(2), start, an_hour));
    }
}

/// The words of an entry of its own.
std::array<uint64_t, 8> words_of(const Hash &its_hash, const Verdict &verdict, microseconds asked) {
    OneBucket bucket{};
    bucket.table().add(its_hash, verdict, at(asked));
    std::array<uint64_t, 8> words{};
    for (const DenyTable::Entry &entry : bucket.entries) {
        if (entry.words[1] == its_hash.high) {
            for (size_t i = 0; i < words.size(); ++i) {
                words[i] = entry.words[i];
            }
        }
    }
    return words;
}

// Whoever writes may be killed, or overtaken by a reader or by another who writes, after any store.
TEST_F(DenyTableTest, FindsNoEntryThatIsTorn) {
    const Hash first = hash(1);
    const Hash others[] = {hash(2), {hash(2).low, first.high}, first};
    const auto old_words = words_of(first, denied(100s, 1), start);
    for (const Hash &second : others) {
        const auto new_words = words_of(second, denied(50s, 2), start + 1s);
        for (unsigned mask = 1; mask < 255; ++mask) { // any words of the one, the rest of the other
            for (size_t i = 0; i < old_words.size(); ++i) {
                bucket_.entries[3].words[i] = (mask >> i & 1) != 0 ? new_words[i] : old_words[i];
            }
            for (const Hash &wanted : {first, second}) {
                bucket_.tags[3] = static_cast<uint16_t>(wanted.low);
                const auto found = table_.find(wanted, start + 1s, an_hour);
                if (found) { // the words that were mixed are the same in both
                    EXPECT_TRUE(found->remaining == 1 ? found->retry_after == 99s + 1ms + 1us
                                                      : found == denied(50s, 2))
                        << mask;
                    bool is_whole = true;
                    const auto &whole = found->remaining == 1 ? old_words : new_words;
                    for (size_t i = 0; i < whole.size(); ++i) {
                        is_whole = is_whole && bucket_.entries[3].words[i] == whole[i];
                    }
                    EXPECT_TRUE(is_whole) << mask;
                }
            }
        }
    }
}

TEST_F(DenyTableTest, FindsOnlyWhatWasStoredAsAWholeWhileOthersWrite) {
    constexpr uint64_t keys = DenyTable::entries_of_bucket + 4; // more than the bucket holds
    std::atomic<bool> is_over{false};
    const auto write = [&](uint64_t seed) {
        std::mt19937_64 random{seed};
        for (int i = 0; i < 200'000; ++i) {
            const uint64_t key = random() % keys;
            const uint64_t units = random() % 1000;
            Verdict verdict = denied(1000s + microseconds(units * keys + key), units);
            table_.add(hash(key), verdict, at(start));
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
        if (const auto verdict = table_.find(hash(key), start, an_hour)) {
            const uint64_t units = verdict->remaining;
            ++found;
            wrong += verdict == denied(1000s + microseconds(units * keys + key), units) ? 0 : 1;
        }
    }
    one.join();
    other.join();
    EXPECT_EQ(wrong, 0u);
    EXPECT_GT(found, 100u);
}

} // namespace
} // namespace rate_limit
