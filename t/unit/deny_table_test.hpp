// What tests of the deny table share.
#pragma once

#include "rate_limit/deny_table.hpp"

namespace rate_limit {

constexpr std::chrono::microseconds an_hour = std::chrono::hours{1};
constexpr std::chrono::microseconds start = std::chrono::seconds{1'000'000};

/// The memory of a table with one bucket, in which all hashes meet.
struct OneBucket {
    DenyTable::Tags tags;
    DenyTable::Entries entries;

    DenyTable table() { return DenyTable(std::as_writable_bytes(std::span(this, 1))); }
};

inline Hash hash(uint64_t number) {
    return {.low = number * 0x9e3779b97f4a7c15, .high = number * 0xd1342543de82ef95};
}

/// Of a check that took no time.
inline DenyTable::CheckTimes at(std::chrono::microseconds time) {
    return {.asked = time, .answered = time};
}

} // namespace rate_limit
