// What tests of live limits share.
#pragma once

#include "rate_limit/tables/live_limits_writer.hpp"
#include "shared_table_test.hpp"
#include "unit/shared_memory.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rate_limit {

class LiveLimitsTest : public testing::Test {
  protected:
    static constexpr size_t bucket_size = sizeof(OneBucket);
    static constexpr size_t header_size = LiveLimits::least_memory - 2 * bucket_size;

    /// Memory of one bucket for overrides and one for resets.
    struct Memory {
        alignas(SharedTable::Tags) std::array<std::byte, LiveLimits::least_memory> bytes;
    };

    LiveLimitsTest() { EXPECT_TRUE(memory_); }

    LiveLimits limits() { return {memory_->bytes, seed_}; }
    /// A writer that has begun and ended a generation without overrides.
    LiveLimitsWriter empty_writer() {
        LiveLimitsWriter writer(limits());
        writer.begin_generation();
        writer.end_generation();
        return writer;
    }
    std::optional<Override> find(std::string_view key, std::string_view rule = "rule") {
        return limits().find(key, rule, [this] { return redis_now_; });
    }

    static Override with_limit(uint64_t limit) { return {.limit = limit}; }
    static OverrideTarget of_key(std::string_view key) { return {.encoded_key = key, .rule = {}}; }
    static std::string key(uint64_t number) { return "key" + std::to_string(number); }

    const HashSeed seed_{.low = 1, .high = 2};
    SharedMemory<Memory> memory_;
    std::chrono::microseconds redis_now_ = start;
};

} // namespace rate_limit
