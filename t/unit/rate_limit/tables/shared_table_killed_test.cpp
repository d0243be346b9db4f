// A process may be killed at any instruction of SharedTable::store(). The test steps through it by
// ptrace(2), and looks at what is stored so far as another process would find it.

#include "shared_table_test.hpp"
#include "unit/shared_memory.hpp"
#include "unit/traced_process.hpp"

#include <gtest/gtest.h>

#include <array>

namespace rate_limit {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;

/// The record of that number. No word of it is like one of another record.
Record record(uint64_t number, microseconds time) {
    return {.time = time,
            .holds_for = 100s + microseconds(number),
            .values = {number, ~number, number << 32, number * number}};
}

using Words = std::array<uint64_t, std::tuple_size_v<decltype(SharedTable::Entry::words)>>;

using Image = std::array<Words, SharedTable::entries_of_bucket>;

Image image_of(const OneBucket &bucket) {
    Image image{};
    for (size_t entry = 0; entry < image.size(); ++entry) {
        for (size_t word = 0; word < image[entry].size(); ++word) {
            image[entry][word] = bucket.entries[entry].words[word];
        }
    }
    return image;
}

/// Whether a table in this state stores and finds records.
bool is_usable(const Image &image) {
    OneBucket bucket{};
    for (size_t entry = 0; entry < image.size(); ++entry) {
        for (size_t word = 0; word < image[entry].size(); ++word) {
            bucket.entries[entry].words[word] = image[entry][word];
        }
    }
    SharedTable table = bucket.table();
    const Record another = record(1000, start + 1s);
    table.store(hash(1000), another);
    return table.find(hash(1000), start + 1s) == another;
}

constexpr uint64_t added = SharedTable::entries_of_bucket;

/// Fills a table with the records before `added`.
void fill(SharedTable &table) {
    for (uint64_t i = 0; i < added; ++i) {
        table.store(hash(i), record(i, start + microseconds(i)));
    }
}

/// Returns the record that makes room for another one in a full table.
uint64_t given_up_for(const Record &another) {
    OneBucket bucket{};
    SharedTable table = bucket.table();
    fill(table);
    table.store(hash(added), another);
    uint64_t given_up = 0;
    while (table.find(hash(given_up), start)) {
        ++given_up;
    }
    return given_up;
}

TEST(SharedTableKilledTest, LeavesTheTableUsable) {
    const SharedMemory<OneBucket> bucket;
    ASSERT_TRUE(bucket);
    SharedTable table = bucket->table();
    fill(table);
    const Record last = record(added, start + 1ms);
    const uint64_t given_up = given_up_for(last);
    const pid_t child = start_traced([&] { table.store(hash(added), last); });
    ASSERT_GT(child, 0);
    if (!is_stopped(child)) {
        GTEST_SKIP() << "no process may be traced here";
    }

    Image seen = image_of(*bucket);
    size_t states = 1;
    while (step(child)) {
        const Image image = image_of(*bucket);
        if (image == seen) {
            continue;
        }
        seen = image;
        ++states;
        for (uint64_t i = 0; i < added; ++i) {
            const auto found = table.find(hash(i), start);
            EXPECT_TRUE(found == record(i, start + microseconds(i)) || (i == given_up && !found))
                << i << ", state " << states;
        }
        const auto half = table.find(hash(added), start);
        EXPECT_TRUE(!half || half == last) << states;
        EXPECT_TRUE(is_usable(image)) << states;
    }
    EXPECT_GT(states, 7u); // there is a store for each word that differs
    EXPECT_EQ(table.find(hash(added), start), last);
}

} // namespace
} // namespace rate_limit
