// Text put together in a buffer that is known to have the room.
#pragma once

#include <algorithm>
#include <string_view>

namespace rate_limit {

/// Copies `text` to `at` and returns its end there.
// Not std::ranges::copy: that of libstdc++ 12 moves one byte at a time where the source is const.
inline char *append(char *at, std::string_view text) {
    return std::copy(text.begin(), text.end(), at);
}

} // namespace rate_limit
