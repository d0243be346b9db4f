#include "rate_limit/algorithms/algorithm.hpp"

namespace rate_limit {

std::optional<Algorithm> algorithm_named(std::string_view name) {
    const auto *const found = std::ranges::find(algorithm_table, name, &AlgorithmTraits::name);
    return found != algorithm_table.end() ? std::optional(found->algorithm) : std::nullopt;
}

std::string names_of_algorithms(bool (*has)(const AlgorithmTraits &traits)) {
    std::string names;
    std::string_view last;
    for (const AlgorithmTraits &traits : algorithm_table) {
        if (!has(traits)) {
            continue;
        }
        if (!last.empty()) {
            names += (names.empty() ? "" : ", ") + std::string(last);
        }
        last = traits.name;
    }
    return (names.empty() ? "" : names + " or ") + std::string(last);
}

} // namespace rate_limit
