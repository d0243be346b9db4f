// A lease book of one bucket in memory that processes share, on a clock that the test moves.
#pragma once

#include "rate_limit/tables/lease_book.hpp"
#include "unit/shared_memory.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <span>

namespace rate_limit {

struct BookMemory {
    std::atomic<int64_t> clock_us;
    alignas(64) std::byte header[64];
    LeaseBook::Bucket bucket;
};

class LeaseBookTest : public testing::Test, protected Machine {
  protected:
    static constexpr std::chrono::microseconds start = std::chrono::seconds(1000);

    LeaseBookTest() {
        EXPECT_TRUE(memory_);
        memory_->clock_us = start.count();
    }

    std::chrono::microseconds now() const {
        return std::chrono::microseconds(memory_->clock_us.load());
    }
    std::chrono::microseconds boot_now() const override { return now(); }
    bool is_alive(pid_t /*process*/) const override { return true; }
    void pass(std::chrono::microseconds time) { memory_->clock_us += time.count(); }

    /// All identities are of the one bucket.
    static Hash identity(uint64_t number) { return {.low = number, .high = ~number}; }

    LeaseBook::Account account(uint64_t number) {
        auto made = book_.find_or_make(identity(number), now());
        EXPECT_TRUE(made);
        return *made;
    }

    static Lease lease_of(uint64_t units, std::chrono::microseconds end, int64_t receipt) {
        return {.units = units,
                .end = end,
                .receipt = receipt,
                .remaining = 100,
                .next_unit = end,
                .reset = end + std::chrono::seconds(1)};
    }

    SharedMemory<BookMemory> memory_;
    LeaseBook book_{std::span(memory_->header, sizeof(BookMemory) - 64)};
};

} // namespace rate_limit
