#include "redis_client/wire/byte_queue.hpp"

#include "unit/allocations.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

namespace redis_client {
namespace {

bool put(ByteQueue &queue, std::string_view bytes) {
    const bool has_room = queue.reserve(bytes.size());
    if (has_room) {
        queue.append(bytes);
    }
    return has_room;
}

TEST(ByteQueue, BeginsEmpty) {
    ByteQueue queue;
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(queue.bytes(), "");
    EXPECT_TRUE(put(queue, ""));
    EXPECT_TRUE(queue.empty());
    queue.consume(0);
    queue.clear();
    EXPECT_EQ(queue.bytes(), "");
}

TEST(ByteQueue, GivesBytesInTheirOrder) {
    ByteQueue queue;
    put(queue, "abc");
    put(queue, "def");
    EXPECT_EQ(queue.bytes(), "abcdef");
    queue.consume(4);
    EXPECT_EQ(queue.bytes(), "ef");
    put(queue, "gh");
    EXPECT_EQ(queue.bytes(), "efgh");
    EXPECT_FALSE(queue.empty());
    queue.consume(4);
    EXPECT_TRUE(queue.empty());
}

TEST(ByteQueue, ForgetsOnClear) {
    ByteQueue queue;
    put(queue, "abc");
    queue.consume(1);
    queue.clear();
    EXPECT_TRUE(queue.empty());
    put(queue, "x");
    EXPECT_EQ(queue.bytes(), "x");
}

TEST(ByteQueue, TakesSeveralAppendsOnOneReservation) {
    ByteQueue queue;
    ASSERT_TRUE(queue.reserve(10'000));
    std::string expected;
    for (int i = 0; i < 100; ++i) {
        const std::string piece(100, static_cast<char>(i));
        queue.append(piece);
        expected += piece;
    }
    EXPECT_EQ(queue.bytes(), expected);
}

TEST(ByteQueue, ChangesNothingWhereMemoryIsRefused) {
    ByteQueue queue;
    EXPECT_FALSE(queue.reserve(SIZE_MAX / 2));
    put(queue, "abc");
    queue.consume(1);
    EXPECT_FALSE(queue.reserve(SIZE_MAX / 2));
    EXPECT_EQ(queue.bytes(), "bc");
    put(queue, "d");
    EXPECT_EQ(queue.bytes(), "bcd");
}

TEST(ByteQueue, KeepsItsMemoryWhileLittleIsInIt) {
    ByteQueue queue;
    const std::string piece(1000, 'x');
    put(queue, piece); // never empty again
    const Allocations made = allocations_of([&] {
        for (int i = 0; i < 10'000; ++i) {
            put(queue, piece);
            queue.consume(piece.size());
        }
    });
    EXPECT_LE(made.largest, 4096u);
    EXPECT_EQ(queue.bytes(), piece);
}

TEST(ByteQueue, AgreesWithAStringOverManySteps) {
    ByteQueue queue;
    std::string expected;
    std::mt19937 random(1);
    for (int step = 0; step < 20'000; ++step) {
        if (random() % 2 == 0) {
            const std::string piece(random() % 3000, static_cast<char>('a' + step % 26));
            ASSERT_TRUE(put(queue, piece));
            expected += piece;
        } else {
            const size_t size = std::min<size_t>(random() % 4000, expected.size());
            queue.consume(size);
            expected.erase(0, size);
        }
        ASSERT_EQ(queue.bytes(), expected) << step;
    }
}

} // namespace
} // namespace redis_client
