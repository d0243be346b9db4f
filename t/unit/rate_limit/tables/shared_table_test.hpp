// What tests of tables in shared memory share.
#pragma once

#include "rate_limit/tables/shared_table.hpp"

namespace rate_limit {

constexpr std::chrono::microseconds an_hour = std::chrono::hours{1};
constexpr std::chrono::microseconds start = std::chrono::seconds{1'000'000};

/// The memory of a table with one bucket, in which all hashes meet.
struct OneBucket {
    SharedTable::Tags tags;
    SharedTable::Entries entries;

    std::span<std::byte> memory() { return std::as_writable_bytes(std::span(this, 1)); }
    SharedTable table() { return SharedTable(memory()); }
};

inline Hash hash(uint64_t number) {
    return {.low = number * 0x9e3779b97f4a7c15, .high = number * 0xd1342543de82ef95};
}

} // namespace rate_limit
