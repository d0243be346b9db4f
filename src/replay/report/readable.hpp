// Bytes of logs as a person can read them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace replay {

/// Returns bytes as a person can read them, at most so many: those that cannot be shown, or that a
/// terminal would obey, as `\x1b`.
std::string readable(std::string_view bytes, size_t most);

} // namespace replay
