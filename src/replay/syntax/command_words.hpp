// Takes the words of a command in RESP that our own code has written, one after the other.
#pragma once

#include <charconv>
#include <cstddef>
#include <string_view>

namespace replay {

/// Takes the number of a line like `*3\r\n` or `$12\r\n`.
inline size_t take_count(std::string_view &command) {
    size_t count = 0;
    const char *end =
        std::from_chars(command.data() + 1, command.data() + command.size(), count).ptr + 2;
    command.remove_prefix(static_cast<size_t>(end - command.data()));
    return count;
}

inline std::string_view take_word(std::string_view &command) {
    const size_t size = take_count(command);
    const std::string_view word = command.substr(0, size);
    command.remove_prefix(size + 2);
    return word;
}

} // namespace replay
