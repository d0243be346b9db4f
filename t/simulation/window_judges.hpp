// Judges of the algorithms that count in windows: sliding_log, fixed_window and sliding_window.
#pragma once

#include "simulation/judges.hpp"

#include <optional>
#include <string>

namespace simulation {

/// Returns what was granted beyond the promise, if anything was.
std::optional<std::string> judge_windows(const JudgedKey &key);
/// The same, of any interval as long as a window, wherever windows begin.
std::optional<std::string> judge_sums_of_windows(const JudgedKey &key);

} // namespace simulation
