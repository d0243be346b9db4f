// Rules whose scripts are made, and what stands in a script.
#pragma once

#include "redis_client/script/arguments.hpp"
#include "redis_client/script/script.hpp"
#include "unit/rate_limit/algorithms.hpp"

#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace redis_client {

using namespace std::chrono_literals;
using rate_limit::Algorithm;
using rate_limit::all_algorithms;

using Numbers = std::set<size_t>;

/// The numbers behind a text: `ARGV[` in `ARGV[1] - ARGV[2]` gives 1 and 2.
inline Numbers numbers_after(std::string_view before, std::string_view text) {
    Numbers numbers;
    for (size_t at = text.find(before); at != std::string_view::npos; at = text.find(before, at)) {
        at += before.size();
        numbers.insert(std::stoul(std::string(text.substr(at, 5))));
    }
    return numbers;
}

inline Numbers one_to(size_t last) {
    Numbers numbers;
    for (size_t i = 1; i <= last; ++i) {
        numbers.insert(i);
    }
    return numbers;
}

inline size_t count_of(std::string_view what, std::string_view text) {
    size_t count = 0;
    for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) {
        ++count;
    }
    return count;
}

inline rate_limit::Quota quota_of(Algorithm algorithm) {
    return {.algorithm = algorithm, .window = 60s, .limit = 100};
}

/// How many ARGV a rule has in a check.
inline size_t argument_count(Algorithm algorithm) {
    return check_arguments(quota_of(algorithm), false).count() +
           (algorithm == Algorithm::concurrency ? 1 : 0);
}

inline ScriptShape shape_of(const std::vector<Algorithm> &algorithms, bool dry_run = false) {
    ScriptShape shape;
    for (const Algorithm algorithm : algorithms) {
        shape.add({.algorithm = algorithm, .dry_run = dry_run});
    }
    return shape;
}

/// Of one rule of each kind, of `most_rules` of each, and of all kinds.
inline std::vector<std::vector<Algorithm>> many_rules() {
    std::vector<std::vector<Algorithm>> rules;
    for (const Algorithm algorithm : all_algorithms) {
        rules.push_back({algorithm});
        rules.emplace_back(most_rules, algorithm);
    }
    rules.emplace_back(std::begin(all_algorithms), std::end(all_algorithms));
    rules.emplace_back(std::rbegin(all_algorithms), std::rend(all_algorithms));
    return rules;
}

} // namespace redis_client
