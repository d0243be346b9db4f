// Tables that have a row for each value of an enum, in the order of the enum.
#pragma once

#include <cstddef>

namespace rate_limit {

/// Whether each row's index is the value of its `key`. Tables assert it, for they are read by
/// index.
template <typename Table, typename Row, typename Enum>
constexpr bool is_in_order(const Table &table, Enum Row::*key) {
    size_t index = 0;
    for (const Row &row : table) {
        if (static_cast<size_t>(row.*key) != index++) {
            return false;
        }
    }
    return true;
}

/// Whether rows with the same value of `key` follow one another, for what writes a heading where
/// the value changes. Rows that have none of its values may stand anywhere.
template <typename Table, typename Row, typename Value>
constexpr bool stand_together(const Table &table, Value Row::*key) {
    for (size_t i = 1; i < table.size(); ++i) {
        const bool begins = table[i].*key != table[i - 1].*key && table[i].*key != Value{};
        for (size_t before = 0; begins && before < i; ++before) {
            if (table[before].*key == table[i].*key) {
                return false;
            }
        }
    }
    return true;
}

} // namespace rate_limit
