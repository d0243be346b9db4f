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

} // namespace rate_limit
