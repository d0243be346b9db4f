// What clients are told of a key: how many units are left, and how long to wait. SPEC sections 3
// and 10.
#pragma once

#include "simulation/judges.hpp"

#include <optional>
#include <string>
#include <vector>

namespace simulation {

/// Returns what was told wrongly, to clients or to operators, if anything was. All that was charged
/// must be in the grants. Nothing is said of those who owe something to a log.
std::optional<std::string> judge_told_numbers(const JudgedKey &key, const std::vector<Look> &looks);

/// The same of a counter with shards, where each decision tells what is left by its own shard, in
/// units of the whole limit: what all shards were charged is the most that this one was.
std::optional<std::string> judge_told_of_shards(const JudgedKey &key);

} // namespace simulation
