#include "rate_limit/algorithms/algorithm.hpp"

#include "rate_limit/text/row_names.hpp"

namespace rate_limit {

std::optional<Algorithm> algorithm_named(std::string_view name) {
    const auto *const found = std::ranges::find(algorithm_table, name, &AlgorithmTraits::name);
    return found != algorithm_table.end() ? std::optional(found->algorithm) : std::nullopt;
}

std::string names_of_algorithms(bool (*has)(const AlgorithmTraits &traits)) {
    return names_of_rows(algorithm_table, has);
}

} // namespace rate_limit
