// The names of a table's rows, as a message lists them.
#pragma once

#include <string>
#include <string_view>

namespace rate_limit {

/// The names of the rows for which `has` is true: `a, b or c`.
template <typename Table, typename Has>
std::string names_of_rows(const Table &table, const Has &has) {
    std::string names;
    std::string_view last;
    for (const auto &row : table) {
        if (!has(row)) {
            continue;
        }
        if (!last.empty()) {
            names += (names.empty() ? "" : ", ") + std::string(last);
        }
        last = row.name;
    }
    return (names.empty() ? "" : names + " or ") + std::string(last);
}

} // namespace rate_limit
